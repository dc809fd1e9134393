"""Rules that a machine can check: import directions (contracts in pyproject.toml), docstrings, no pickle."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("engine", "store", "backend", "cluster", "server", "ui", "training", "bench", "examples", "scripts")
MODULES = [ROOT / "app.py", *sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))]
UNSAFE_IMPORTS = {"pickle", "dill", "cloudpickle", "joblib"}
UNSAFE_TEXTS = ("trust_remote_code=True", "torch.load(")


def imports_of(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_import_contracts_hold():
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_nothing_unpickles_or_runs_remote_code():
    violations = []
    for path in MODULES:
        source = path.read_text()
        violations += [(str(path), name) for name in UNSAFE_IMPORTS & set(imports_of(source))]
        violations += [(str(path), text) for text in UNSAFE_TEXTS if text in source]
    assert violations == []


@pytest.mark.slow  # the import contracts say the same of our own modules
def test_ui_and_server_do_not_import_torch():
    code = "import sys, server.routes, ui.layout; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
