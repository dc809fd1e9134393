"""A backend of two tiny models, on words in place of MiniLM."""

import pytest

from backend.local import LocalBackend
from backend.runtime.settings import Settings
from tests.support import tiny
from tests.support.fakes import WordEmbedder


def saved(folder, build=tiny.llama, seed=0):
    made = tiny.decoder(build, seed)
    made.model.set_attn_implementation("sdpa")
    made.model.save_pretrained(folder)
    made.tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of two good models, and of one whose weights are fine and whose tokenizer is missing."""
    root = tmp_path_factory.mktemp("models")
    found = {"one": saved(root / "one"), "two": saved(root / "two", tiny.qwen2, 1), "bad": saved(root / "bad")}
    for path in (root / "bad").glob("tokenizer*"):
        path.unlink()
    return found


@pytest.fixture
def start(tmp_path, models, monkeypatch):
    """Start a backend with model one, on words in place of MiniLM; it is closed when the test ends."""
    monkeypatch.setattr("backend.runtime.loader.MiniLM", lambda config: WordEmbedder())
    monkeypatch.setattr("engine.builder.load_cost_model", lambda decoder, folder: None)
    opened = []

    def open_backend(fixed=None, **chosen):
        for earlier in opened:
            earlier.close()
        chosen = {"model": models["one"], "auxiliary_model": models["one"], "dtype": "fp32"} | chosen
        settings = Settings(data=tmp_path / "data", sample_docs=False, **chosen)
        opened.append(LocalBackend(settings, fixed))
        opened[-1].start()
        opened[-1].wait(60)
        return opened[-1]

    yield open_backend
    opened[-1].close()
