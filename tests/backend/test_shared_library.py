"""Backends whose documents are on a library server."""

import io
import time
import zipfile
from threading import Event

import pytest

from backend.interface.errors import BadSettings
from backend.local import LocalBackend
from backend.runtime.secrets import Secrets
from backend.runtime.settings import Settings, overrides
from engine.request import Request
from store.errors import LibraryUnavailable
from store.feedback import RatedPassage, Rating
from store.ingest.chunker import ChunkConfig
from tests.backend.conftest import filled
from tests.support.doubles import last
from tests.support.library_server import CHUNKING, KEY, library_server
from tests.support.ports import free_port

QUESTION = Request("What is the maintenance code?", "cacheclip", max_new_tokens=8)
SECRETS = Secrets(library_key=KEY)


@pytest.fixture(autouse=True)
def try_again_at_once(monkeypatch):
    monkeypatch.setattr("store.remote_library.RETRY_S", 0.0)


@pytest.fixture
def shared(start, tmp_path):
    """A backend, and the library that it uses through a server."""
    with library_server(tmp_path) as (library, url):
        yield start(library=url, secrets=SECRETS), library


def test_documents_are_added_searched_exported_and_deleted_on_the_server(shared, tmp_path):
    backend, library = shared
    filled(backend, tmp_path)
    (document,) = library.documents()
    assert backend.documents() == [document] and not (tmp_path / "data" / "library").exists()
    assert {source.document for source in last(backend.ask(QUESTION, Event())).sources} == {"boats.txt"}
    assert [each.document for each in backend.library.list_with_usage()] == [document]
    assert (backend.loader.settings.chunk_size, backend.loader.settings.chunk_overlap) == (
        CHUNKING.tokens,
        CHUNKING.overlap,
    )
    assert "The library server keeps" in backend.outgoing_note
    target = io.BytesIO()
    backend.export(target)
    assert zipfile.ZipFile(target).read("documents.jsonl").count(b"\n") == 1
    assert backend.delete(document.id) and library.documents() == []


def test_what_another_backend_deletes_is_deleted_here(shared, tmp_path):
    backend, library = shared
    filled(backend, tmp_path)
    runtime, follower = backend.loader.runtime, backend._follower
    follower.follow(runtime)
    last(backend.ask(QUESTION, Event()))
    (document,) = library.documents()
    backend.feedback.put(Rating("1", 0.0, QUESTION.question, "x", True, "full", (RatedPassage(document.id, "text"),)))
    tree = runtime.tiers.tree
    assert tree.nodes
    library.delete(document.id)
    follower.follow(runtime)
    assert not tree.nodes and backend.feedback.ratings() == []


def test_without_knowing_what_was_deleted_what_is_left_is_compared(start, tmp_path):
    port = free_port()
    with library_server(tmp_path, port) as (library, url):
        backend = filled(start(library=url, secrets=SECRETS), tmp_path)
        other = tmp_path / "other.txt"
        other.write_text("A lighthouse has a lamp.")
        list(backend.ingest([(other, other.name)], Event()))
        runtime, follower = backend.loader.runtime, backend._follower
        follower.follow(runtime)
        chunks = {document.name: library.chunks(document.id) for document in library.documents()}
        keys = {name: backend._chunk_owners.keys(runtime)[each[0].document_id] for name, each in chunks.items()}
        for name, (chunk, *_) in chunks.items():
            backend.feedback.put(Rating(name, 0.0, "?", "!", True, "full", (RatedPassage(chunk.document_id, "text"),)))
    with library_server(tmp_path, port) as (library, _):  # a process that does not remember what the former one deleted
        library.delete(chunks["boats.txt"][0].document_id)
        library._deleted.clear()
        told = []
        runtime.engine.passages.on_deleted = told.extend
        follower.follow(runtime)
        cached = {node.chunk for node in runtime.tiers.tree.nodes.values()}
        boats, others = ({key for roles in keys[name].values() for key in roles} for name in ("boats.txt", "other.txt"))
        assert cached & others and not cached & boats and set(told) & boats and not set(told) & others
        assert [rating.id for rating in backend.feedback.ratings()] == ["other.txt"]
        follower.follow(runtime)
        assert {node.chunk for node in runtime.tiers.tree.nodes.values()} == cached
        backend.close()


def test_what_another_backend_has_re_indexed_is_shown_with_its_new_passages(shared, tmp_path, monkeypatch):
    backend, library = shared
    filled(backend, tmp_path)
    (document,) = library.documents()
    backend.library.list_with_usage()
    monkeypatch.setattr(library, "_chunking", ChunkConfig(tokens=200, overlap=0))
    list(library.reindex(document.id))
    backend._follower.follow(backend.loader.runtime)
    (chunk,) = library.chunks(document.id)
    assert document.num_chunks > 1
    backend.loader.runtime.engine.passages.warm(chunk.passage)
    assert [(each.role, each.chunk) for each in backend.cache.snapshot().passages] == [("primary", chunk)]
    (usage,) = backend.library.list_with_usage()
    assert usage.bytes_by_tier and usage.bytes_by_tier["host"] > 0


def test_deletions_are_followed_in_the_background(shared, tmp_path, monkeypatch):
    backend, library = shared
    filled(backend, tmp_path)
    monkeypatch.setattr("backend.services.shared_library.POLL_S", 0.02)
    (document,) = library.documents()
    library.delete(document.id)
    deadline = time.monotonic() + 20
    while backend.loader.runtime.tiers.tree.nodes:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_key_is_required():
    with pytest.raises(BadSettings, match="needs a key in KVSCOPE_LIBRARY_KEY"):
        LocalBackend(Settings(library="http://127.0.0.1:1"))


def test_a_library_that_does_not_answer_is_named_and_its_documents_stay_listed(start, tmp_path):
    port = free_port()
    with library_server(tmp_path, port) as (_, url):
        backend = filled(start(library=url, secrets=SECRETS), tmp_path)
        documents = backend.documents()
    assert backend.documents() == documents != []
    assert [each.document for each in backend.library.list_with_usage()] == documents
    with pytest.raises(LibraryUnavailable, match="does not answer"):
        last(backend.ask(QUESTION, Event()))
    assert any("does not answer" in notice for notice in backend.notices())
    assert backend.models.loaded()[0].role == "primary"
    file = tmp_path / "more.txt"
    file.write_text("More about boats.")
    *_, (state,) = backend.ingest([(file, file.name)], Event())
    assert state.stage == "failed" and "does not answer" in state.message
    with library_server(tmp_path, port):
        assert backend.notices() == []
        *_, (state,) = backend.ingest([(file, file.name)], Event())
        assert state.stage == "done" and len(backend.documents()) == 2
        backend.close()


def test_a_backend_waits_for_its_library(start, tmp_path, monkeypatch):
    monkeypatch.setattr("backend.runtime.loader.SERVER_RETRY_S", 0.05)
    port = free_port()
    backend = start(library=f"http://127.0.0.1:{port}", secrets=SECRETS, wait=0)
    while "Waiting for the library" not in backend.status().message:
        assert not backend.status().failed
    with library_server(tmp_path, port):
        backend.loader.wait(60)
        assert backend.status().ready
        backend.close()


def test_settings_of_the_library_cannot_be_changed_here():
    assert overrides(["--library", "http://x"], {})["chunk_size"] == "--library"
    assert overrides([], {"KVSCOPE_LIBRARY": "http://x"})["embedding_model"] == "KVSCOPE_LIBRARY"
    assert "chunk_size" not in overrides(["--port", "1"], {})


@pytest.mark.parametrize(
    "url", ["box", "redis://box", "http://", "http://u:p@box", "http://box?x=1", "http://box:99999"]
)
def test_addresses_are_checked(url):
    for name in ("library", "chroma"):
        with pytest.raises(BadSettings):
            Settings(**{name: url})


def test_rays_client_is_refused_with_the_remedy():
    with pytest.raises(BadSettings, match="ray start --address"):
        Settings(cluster="ray://10.0.0.5:10001")
    with pytest.raises(BadSettings, match="neither auto nor"):
        Settings(cluster="somewhere")
    assert Settings(cluster="10.0.0.5:6379").cluster
