"""The public API of the package: load an engine over texts, and import plain data without torch."""

import subprocess
import sys

import pytest

import engine
from engine import Request, load_engine
from engine.errors import ModelNotFound
from engine.prompt.text_finder import TextFinder
from tests.support import tiny
from tests.support.doubles import TEXTS, last

TORCH_FREE = (
    "engine.request engine.errors engine.method engine.text engine.trace "
    "engine.analysis.comparison engine.prompt.followups"
)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder, decoder = tmp_path_factory.mktemp("model"), tiny.decoder()
    decoder.model.save_pretrained(folder)
    decoder.tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("as_finder", [False, True])
def test_engine_loaded_by_folder_answers_over_texts_and_reuses_them(model_folder, as_finder):
    texts = [TEXTS["ferry"], TEXTS["tern"]]
    source = {"finder": TextFinder(texts)} if as_finder else {"texts": texts}
    loaded = load_engine(model_folder, **source, auxiliary_model=model_folder, device="cpu", dtype="fp32")
    first, second = (last(loaded.ask(Request("What is the maintenance code?", max_new_tokens=4))) for _ in range(2))
    assert [source.text for source in first.sources] == texts
    assert {source.tier for source in first.sources} == {"computed"}
    assert {source.tier for source in second.sources} == {"host"}
    assert first.text == second.text and first.notes == ()


def test_missing_model_is_reported(tmp_path):
    with pytest.raises(ModelNotFound):
        load_engine(str(tmp_path))


def test_public_names_are_importable_and_others_are_not():
    assert {name: getattr(engine, name).__name__ for name in ("Engine", "Request", "load_engine")}
    assert "cacheclip" in engine.STRATEGIES
    with pytest.raises(AttributeError, match="no attribute 'Motor'"):
        engine.Motor  # noqa: B018


def test_plain_data_modules_do_not_import_torch():
    code = f"import sys, {', '.join(TORCH_FREE.split())}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
