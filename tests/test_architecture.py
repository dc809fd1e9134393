"""The house rules a machine can check: which way imports point, how long a file is, what never appears."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("engine", "store", "ui", "backend", "bench")
MODULES = sorted(path for name in FOLDERS for path in (ROOT / name).rglob("*.py"))
FRONT = [ROOT / name for name in ("app.py", "settings.py")]
STORE_DOORS = ("store.types", "store.errors")
FORBIDDEN = {
    "store": ("engine", "ui", "bench", "gradio", "transformers", "plotly"),
    "engine": ("ui", "bench", "gradio", "plotly", "chromadb", "sentence_transformers", "backend", "settings"),
    "ui": ("torch", "transformers", "chromadb", "bench", "backend", "settings"),
    "backend": ("gradio", "plotly", "bench", "app"),
    "bench": ("ui", "gradio"),
}


def named(path):
    return str(path.relative_to(ROOT))


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def within(name, package):
    return name == package or name.startswith(f"{package}.")


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_imports_point_one_way(path):
    home = path.relative_to(ROOT).parts[0]
    for name in imports_of(path):
        assert not any(within(name, bad) for bad in FORBIDDEN[home]), name
        if home in ("engine", "ui") and within(name, "store"):
            assert name in STORE_DOORS, name


@pytest.mark.parametrize("path", [path for path in MODULES if path.parts[-2] != "model"], ids=named)
def test_only_engine_model_and_the_decode_bench_know_transformers(path):
    if named(path) != "bench/decode.py":
        assert not any(within(name, "transformers") for name in imports_of(path))


@pytest.mark.parametrize("path", MODULES + FRONT, ids=named)
def test_modules_are_short_say_what_they_are_and_never_pickle(path):
    text = path.read_text()
    assert text.count("\n") <= 250
    assert ast.get_docstring(ast.parse(text))
    assert not {"pickle", "torch.load", "dill"} & set(imports_of(path))
    assert "trust_remote_code=True" not in text and "torch.load(" not in text


def test_the_page_can_be_drawn_without_torch():
    code = "import sys, ui.page; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
