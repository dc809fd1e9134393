"""A backend on two tiny models, with a word embedder in place of MiniLM."""

from threading import Event

import pytest

from backend.local import LocalBackend
from backend.runtime.settings import Settings
from store.ingest import parse_steps
from tests.support import tiny
from tests.support.doubles import TEXTS
from tests.support.fakes import WordEmbedder


def saved(folder, build=tiny.llama, seed=0):
    decoder = tiny.decoder(build, seed)
    decoder.model.set_attn_implementation("sdpa")
    decoder.model.save_pretrained(folder)
    decoder.tokenizer.save_pretrained(folder)
    return str(folder)


def filled(backend, folder):
    """Add a document to a backend; return the backend."""
    file = folder / "boats.txt"
    file.write_text("\n\n".join(TEXTS.values()))
    list(backend.ingest([(file, file.name)], Event()))
    return backend


@pytest.fixture(autouse=True)
def parse_in_this_process(monkeypatch):
    """A process for each file takes time; tests/store/ingest/test_isolated.py and the real app's tests have it."""
    monkeypatch.setattr("store.ingest.isolated.parse_isolated", parse_steps)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of two models, and of a third one without a tokenizer."""
    root = tmp_path_factory.mktemp("models")
    folders = {"one": saved(root / "one"), "two": saved(root / "two", tiny.qwen2, 1), "bad": saved(root / "bad")}
    for path in (root / "bad").glob("tokenizer*"):
        path.unlink()
    return folders


@pytest.fixture
def start(tmp_path, models, monkeypatch):
    """Start a backend on model one; it is closed when the test ends."""
    monkeypatch.setattr("backend.runtime.loader.MiniLM", lambda config: WordEmbedder())
    monkeypatch.setattr("engine.builder.load_cost_model", lambda decoder, folder: None)
    opened = []

    def open_backend(overrides=None, secrets=None, wait=60, **settings):
        for earlier in opened:
            earlier.close()
        tiny = {
            "model": models["one"],
            "auxiliary_model": models["one"],
            "dtype": "fp32",
            "span_scorer": "off",
            "idle_calibration": False,
        }
        settings = tiny | settings
        settings = Settings(data=tmp_path / "data", sample_docs=False, **settings)
        opened.append(LocalBackend(settings, overrides, secrets))
        opened[-1].start()
        opened[-1].loader.wait(wait)
        return opened[-1]

    yield open_backend
    opened[-1].close()
