"""A data folder, preferences and a chat written by version 0.1 still work.

`tests/support/data/data_folder_v0.1.zip` holds a tiny random model, a data folder with one document and the KV of its
chunks (computed by that model), preferences under their old names, and a chat as a browser kept it.
"""

import json
import zipfile
from pathlib import Path
from threading import Event

import pytest

from backend.local import LocalBackend
from backend.runtime.settings import read_settings
from engine.request import Request
from tests.support.doubles import last
from tests.support.fakes import WordEmbedder
from ui.pages.ask.chat import Chat

ARCHIVE = Path(__file__).parents[1] / "support" / "data" / "data_folder_v0.1.zip"
QUESTION = "Who is the lighthouse keeper?"


@pytest.fixture
def folder(tmp_path):
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    return tmp_path


@pytest.fixture
def backend(folder, monkeypatch):
    monkeypatch.setattr("backend.runtime.loader.MiniLM", lambda config: WordEmbedder())
    monkeypatch.setattr("engine.builder.load_cost_model", lambda decoder, folder: None)
    model = str(folder / "model")
    settings = read_settings(["--data", str(folder / "data"), "--model", model, "--auxiliary", model, "--no-samples"])
    backend = LocalBackend(settings)
    backend.start()
    backend.loader.wait(60)
    assert backend.status().ready, backend.status().message
    yield backend
    backend.close()


def test_preferences_under_their_old_names_apply(folder):
    settings = read_settings(["--data", str(folder / "data")])
    choices = list(settings.mutable_values().values())
    assert {24, 4, 0.25, "lru", "fp32", "off"} <= set(choices) and choices.count(1.0) == 2


def test_documents_are_listed_and_answers_reuse_the_stored_kv(backend):
    assert [(document.name, document.num_chunks) for document in backend.documents()] == [("ferry.txt", 7)]
    answer = last(backend.ask(Request(QUESTION, "cacheclip", passages=2, max_new_tokens=4), Event()))
    assert answer.state == "done"
    assert [(source.document, source.tier) for source in answer.sources] == [("ferry.txt", "disk")] * 2
    assert answer.sources[0].text == "The lighthouse keeper is"


def test_a_chat_kept_by_a_browser_is_read_back_unchanged(folder):
    stored = json.loads((folder / "chat.json").read_text())
    chat = Chat.from_saved(stored)
    kept = json.loads(chat.as_json())
    for before, after in zip(stored.pop("turns"), kept["turns"], strict=True):
        assert after | before == after  # later versions only add fields
    assert kept | stored == kept
    assert chat.turns[0].question == QUESTION
