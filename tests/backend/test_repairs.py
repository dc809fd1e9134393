"""Missing vectors are computed while questions are answered, and the user is told what was damaged."""

import shutil
import time
from dataclasses import replace
from threading import Event

from engine.request import Request
from store.document_library import DocumentLibrary
from store.errors import VectorsUnavailable
from store.retrieval.vectors import VectorIndex
from tests.backend.conftest import filled
from tests.support.doubles import last
from tests.support.fakes import WordEmbedder

ASK = Request("When does the Old Kestrel sail?", max_new_tokens=4)


def wait_until(condition, timeout_s=20.0):
    until = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    assert condition()


def test_missing_vectors_are_computed_in_the_background_and_questions_are_answered_meanwhile(
    start, tmp_path, monkeypatch
):
    backend = filled(start(), tmp_path)
    assert backend.notices() == []
    vectors = backend.loader.settings.data / "library" / "vectors"
    backend.close()
    shutil.rmtree(vectors)
    may_continue, embed = Event(), WordEmbedder.embed

    def embed_later(self, texts):
        if len(texts) > 1:  # no question
            may_continue.wait(20)
        return embed(self, texts)

    monkeypatch.setattr(WordEmbedder, "embed", embed_later)
    backend = start()
    (notice,) = backend.notices()
    assert notice.startswith("1 document is found by words only")
    assert last(backend.ask(ASK, Event())).state == "done"
    may_continue.set()
    wait_until(lambda: not backend.notices())
    (source, *_) = last(backend.ask(ASK, Event())).sources
    assert source.similarity is not None


def test_a_reload_does_not_end_the_computation(start, tmp_path, monkeypatch):
    backend = filled(start(), tmp_path)
    vectors = backend.loader.settings.data / "library" / "vectors"
    backend.close()
    shutil.rmtree(vectors)
    started, may_continue, embed = Event(), Event(), WordEmbedder.embed

    def embed_later(self, texts):
        if len(texts) > 1:
            started.set()
            may_continue.wait(20)
        return embed(self, texts)

    monkeypatch.setattr(WordEmbedder, "embed", embed_later)
    backend = start()
    assert started.wait(20)
    backend.models.apply(replace(backend.models.current(), chunk_overlap=8))
    may_continue.set()
    backend.loader.wait(60)
    wait_until(lambda: backend.status().ready and not backend.notices())


def test_vectors_that_a_chroma_server_does_not_take_are_computed_again_later(start, tmp_path, monkeypatch):
    backend = filled(start(), tmp_path)
    vectors = backend.loader.settings.data / "library" / "vectors"
    backend.close()
    shutil.rmtree(vectors)
    refused, add = Event(), VectorIndex.add

    def add_later(self, *arguments):
        if not refused.is_set():
            refused.set()
            raise VectorsUnavailable("Chroma does not answer.")
        add(self, *arguments)

    monkeypatch.setattr(VectorIndex, "add", add_later)
    monkeypatch.setattr("backend.services.repairs.RETRY_S", 0.01)
    backend = start()
    wait_until(lambda: refused.is_set() and not backend.notices())


def test_an_error_of_the_check_for_missing_vectors_is_no_error_of_loading(start, monkeypatch, caplog):
    monkeypatch.setattr(DocumentLibrary, "documents_without_vectors", lambda library: 1 / 0)
    assert start().status().ready and "ZeroDivisionError" in caplog.text


def test_a_damaged_database_is_named_on_the_page(start, tmp_path):
    backend = filled(start(), tmp_path)
    database = backend.loader.settings.data / "library" / "library.sqlite3"
    backend.close()
    database.write_bytes(b"no database" * 1000)
    backend = start()
    (notice,) = backend.notices()
    assert "was damaged" in notice and "1 document was restored" in notice
    assert [document.name for document in backend.documents()] == ["boats.txt"]
