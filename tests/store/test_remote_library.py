"""The library server and its client: the same results, errors and rollbacks as a library in this process."""

import io
import time
import zipfile
from contextlib import closing
from threading import Thread

import httpx
import pytest

from store import remote_library
from store.errors import DocumentTooLarge, KVScopeError, LibraryUnavailable, NoSuchDocument, UnreadableDocument
from store.remote_library import OPERATIONS, PATH, PROTOCOL_HEADER, connect
from tests.support.fakes import WordEmbedder
from tests.support.files import pdf
from tests.support.library_server import KEY, library_server
from tests.support.ports import free_port

BIRDS = "Herons nest in tall trees. " * 12 + "\n\nPuffins nest in burrows\u2028on islands. " * 12
ROCKS = "Granite cools slowly below the ground. " * 20


@pytest.fixture(autouse=True)
def try_again_at_once(monkeypatch):
    monkeypatch.setattr(remote_library, "RETRY_S", 0.0)


@pytest.fixture
def served(tmp_path):
    """A library in this process, and a client that reaches it through a server."""
    with library_server(tmp_path) as (library, url), closing(connect(url, KEY)) as remote:
        yield library, remote


def add(library, path, name):
    *_, last = library.add(path, name)
    return last.document


def test_every_method_gives_through_the_server_what_the_library_gives(served, file_of):
    library, remote = served
    steps = list(remote.add(file_of(BIRDS), "birds.txt"))
    assert [step.stage for step in steps][-1] == "indexed" and steps[-1].document.num_chunks > 2
    birds, rocks = steps[-1].document, add(remote, file_of(pdf(ROCKS)), "rocks.pdf")
    assert add(remote, file_of(BIRDS), "again.txt") == birds
    chunk = library.chunks(birds.id)[1]
    same = [
        ("info",),
        ("documents",),
        ("chunks", birds.id),
        ("chunks", birds.id, 2),
        ("chunks", "unknown"),
        ("chunks_by_id", [chunk.id, "unknown"]),
        ("excerpt", chunk.id),
        ("has_pages", birds.id),
        ("has_pages", rocks.id),
        ("page_picture", library.chunks(rocks.id)[0].id, 1, "Granite"),
        ("page_picture", chunk.id, 1, ""),
        ("documents_without_vectors",),
    ]
    for name, *arguments in same:
        assert getattr(remote, name)(*arguments) == getattr(library, name)(*arguments), name
    for question in ("Where do herons nest?", "\ud800 granite", " "):
        stages = list(library.retrieve_stages(question, 3, [birds.id]))
        assert list(remote.retrieve_stages(question, top_k=3, documents=[birds.id])) == stages
    assert remote.rename(rocks.id, "stones.pdf").name == "stones.pdf"
    remote.add_to_collection([rocks.id], "Geology")
    assert {each.name: each.collections for each in library.documents()}["stones.pdf"] == ("Geology",)
    remote.remove_from_collection([rocks.id], "Geology")
    copy = file_of(remote.copy(birds.id), "copy.zip")
    texts = [each.text for each in library.chunks(birds.id)]
    assert [each.text for each in remote.delete(birds.id)] == texts
    assert birds.id not in {each.id for each in library.documents()}
    remote.restore(copy)
    assert birds.id in {each.id for each in remote.documents()}
    assert list(remote.embed_missing()) and remote.documents_without_vectors() == []
    with zipfile.ZipFile(io.BytesIO(b"".join(remote.export()))) as archive:
        assert archive.read("documents.jsonl").count(b"\n") == 2
    assert [step.stage for step in remote.reindex(birds.id)][-1] == "indexed"
    tried = {name for name, *_ in same} | {"add", "retrieve_stages", "rename", "add_to_collection", "copy", "delete"}
    tried |= {"remove_from_collection", "restore", "embed_missing", "export", "reindex", "deletions", "documents_since"}
    assert tried == set(OPERATIONS)


def test_errors_are_those_of_the_library(served, file_of, tmp_path):
    library, remote = served
    with pytest.raises(NoSuchDocument, match="not in the library") as error:
        remote.excerpt("x-0")
    assert str(error.value).count(NoSuchDocument.hint) == 1
    with pytest.raises(UnreadableDocument):
        list(remote.add(file_of(b"\0\1\2"), "x.pdf"))
    with pytest.raises(UnreadableDocument, match="cannot be read"):
        list(remote.add(tmp_path / "absent.txt", "absent.txt"))
    with pytest.raises(ValueError, match="top_k"):
        next(remote.retrieve_stages("x", 0))
    library.rename = lambda *arguments: 1 / 0
    with pytest.raises(KVScopeError, match=r"The library failed \(ZeroDivisionError\)"):
        remote.rename("x", "y")
    assert remote.documents() == []


def test_a_file_above_the_limit_is_refused(tmp_path, file_of):
    with library_server(tmp_path, max_file_bytes=1000) as (library, url), closing(connect(url, KEY)) as remote:
        with pytest.raises(DocumentTooLarge, match="limit of the library"):
            list(remote.add(file_of(b"a" * 1001), "long.txt"))
        assert library.documents() == []


@pytest.mark.parametrize("pause_s", [0, 0.5])
def test_an_iterator_that_is_closed_leaves_no_trace(served, file_of, pause_s):
    library, remote = served
    with closing(remote.add(file_of(BIRDS), "birds.txt")) as steps:
        while next(steps).stage != "embedded":
            pass
        time.sleep(pause_s)  # the server waits to be asked for more
    assert not library._claimed and library._catalog.pending_owners() == [] and len(library._vectors) == 0
    assert remote.documents() == [] and add(remote, file_of(BIRDS), "birds.txt").name == "birds.txt"


def test_a_client_that_goes_away_leaves_no_trace(served, file_of):
    library, remote = served
    steps = remote.add(file_of(BIRDS), "birds.txt")
    while next(steps).stage != "embedded":
        pass
    remote._tell = lambda run, what: None  # as if the process were killed
    steps.close()
    deadline = time.monotonic() + 10
    while library._claimed:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert library.documents() == [] and library._catalog.pending_owners() == []


def test_a_connection_is_used_again(served):
    _, remote = served
    made = []
    remote._client.event_hooks["request"].append(
        lambda request: request.extensions.update(
            trace=lambda name, info: made.append(name) if name.endswith("connect_tcp.started") else None
        )
    )
    for _ in range(5):
        remote.documents()
        list(remote.retrieve_stages("herons", 2))
    assert len(made) <= 2  # one that streams, one that asks for more


def test_documents_are_sent_again_only_after_a_change(served, file_of, monkeypatch):
    library, remote = served
    birds = add(remote, file_of(BIRDS), "birds.txt")
    assert remote.documents() == [birds]
    listed = []
    whole = library.documents
    monkeypatch.setattr(library, "documents", lambda: listed.append(1) or whole())
    assert remote.documents() == [birds] and not listed
    library.rename(birds.id, "herons.txt")
    assert [each.name for each in remote.documents()] == ["herons.txt"] and listed == [1]
    library.add_to_collection([birds.id], "Birds")
    assert [each.collections for each in remote.documents()] == [("Birds",)]


def test_a_file_that_is_being_added_elsewhere_is_waited_for_and_sent_once(served, file_of):
    _, remote = served
    path = file_of(BIRDS)
    first = remote.add(path, "birds.txt")
    next(first)
    second = remote.add(path, "again.txt")
    assert next(second).stage == "waiting"
    *_, last = first
    *_, again = second
    assert again.document == last.document and again.unchanged


class Panic(BaseException):
    """As Rust's libraries raise."""


def test_a_panic_ends_the_call(served):
    library, remote = served

    def panic(*_):
        raise Panic("a bug")

    library.rename = panic
    with pytest.raises(KVScopeError, match=r"The library failed \(Panic\)"):
        remote.rename("x", "y")


@pytest.mark.parametrize("status, message", [(502, "status 502"), (404, "not a KVScope library")])
def test_what_a_proxy_answers_is_named(served, status, message):
    _, remote = served
    remote._client = httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(status)))
    with pytest.raises(LibraryUnavailable, match=message):
        remote.documents()


def test_long_lines_are_read_in_linear_time():
    blocks = [b"x" * 1000] * 30_000 + [b"\n", b"y\nz"]
    assert [len(line) for line in remote_library._lines(blocks)] == [30_000_000, 1]


def test_deletions_are_told_since_a_cursor(served, file_of):
    library, remote = served
    first = remote.deletions("")
    assert not first.is_complete and first.passages == []
    birds, rocks = add(remote, file_of(BIRDS), "birds.txt"), add(remote, file_of(ROCKS), "rocks.txt")
    passages = [chunk.passage for chunk in library.chunks(birds.id)]
    remote.delete(birds.id)
    after = remote.deletions(first.cursor)
    assert after.is_complete and after.document_ids == [birds.id] and after.passages == passages
    assert remote.deletions(after.cursor).passages == []
    library._chunking = type(library._chunking)(tokens=10, overlap=2)
    old = {chunk.passage for chunk in library.chunks(rocks.id)}
    list(remote.reindex(rocks.id))
    changed = remote.deletions(after.cursor)
    assert changed.document_ids == [] and set(changed.passages) == old - {c.passage for c in library.chunks(rocks.id)}
    for wrong in ("0-0", "-", f"{first.cursor.partition('-')[0]}-99", f"{first.cursor.partition('-')[0]}-x"):
        assert not remote.deletions(wrong).is_complete


def test_more_deletions_than_are_remembered_are_unknown(served, file_of, monkeypatch):
    library, remote = served
    library._deleted = type(library._deleted)(maxlen=2)
    cursor = remote.deletions("").cursor
    remote.delete(add(remote, file_of(BIRDS), "birds.txt").id)
    assert not remote.deletions(cursor).is_complete


@pytest.mark.parametrize("given", [b"Bearer another", b"Bearer", f"Bearer {KEY}x".encode(), KEY.encode(), b"\xe9"])
def test_a_wrong_key_is_refused(tmp_path, given):
    with library_server(tmp_path) as (_, url):
        response = httpx.post(url + PATH + "documents", content=b"[]\n", headers={b"authorization": given})
        assert response.status_code == 401 and response.content == b""
        with pytest.raises(LibraryUnavailable, match="refuses the key"):
            connect(url, "another")


@pytest.mark.parametrize(
    "method, body, status",
    [
        ("close", b"[]\n", 404),
        ("__init__", b"[]\n", 404),
        ("documents", b"", 400),
        ("documents", b"[1]\n", 400),
        ("documents", b"{}\n", 400),
        ("chunks", b"[" * 100_000, 400),
        ("chunks", b'["a", "b"]\n', 400),
        ("documents", b"[]\nmore", 400),
        ("documents", b" " * 2**21, 400),
    ],
)
def test_a_wrong_request_is_refused(tmp_path, method, body, status):
    with library_server(tmp_path) as (_, url):
        response = httpx.post(url + PATH + method, content=body, headers={"Authorization": f"Bearer {KEY}"})
        assert response.status_code == status and response.headers[PROTOCOL_HEADER]
        assert httpx.get(url + "/health").json() == {"status": "ok"}


def test_another_version_and_what_is_no_library_are_named(tmp_path, monkeypatch):
    with library_server(tmp_path) as (_, url):
        monkeypatch.setattr(remote_library, "PROTOCOL", 0)
        with pytest.raises(LibraryUnavailable, match=r"has protocol 1, this KVScope has 0.*Update this KVScope"):
            connect(url, KEY)
        monkeypatch.setattr(remote_library, "PROTOCOL", 2)
        with pytest.raises(LibraryUnavailable, match="Update the library"):
            connect(url, KEY)
        monkeypatch.setattr(remote_library, "PROTOCOL_HEADER", "other")
        with pytest.raises(LibraryUnavailable, match="not a KVScope library"):
            connect(url, KEY)


def test_a_library_that_ends_meanwhile_is_named_and_works_again_after_its_restart(tmp_path, file_of):
    class SlowEmbedder(WordEmbedder):
        def embed(self, texts):
            time.sleep(0.5)
            return super().embed(texts)

    port = free_port()
    with library_server(tmp_path, port, SlowEmbedder()) as (_, url):
        remote = connect(url, KEY)
        birds = add(remote, file_of("Herons nest in tall trees."), "birds.txt")
        steps = remote.add(file_of(ROCKS), "rocks.txt")
        next(steps)
    with pytest.raises(LibraryUnavailable, match=r"ended|does not answer"):
        list(steps)
    with pytest.raises(LibraryUnavailable, match="does not answer"):
        remote.documents()
    with library_server(tmp_path, port):
        assert remote.documents() == [birds]
        assert add(remote, file_of(ROCKS), "rocks.txt").name == "rocks.txt"
    remote.close()


def test_a_silent_server_gives_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr("cluster.library_app.HEARTBEAT_S", 0.05)
    monkeypatch.setattr(remote_library, "TIMEOUTS", httpx.Timeout(0.5))
    with library_server(tmp_path) as (library, url), closing(connect(url, KEY)) as remote:
        slow = library.info
        library.info = lambda: time.sleep(1) or slow()
        assert remote.info() == slow()
        monkeypatch.setattr("cluster.library_app.HEARTBEAT_S", 10)
        with pytest.raises(LibraryUnavailable, match="does not answer"):
            remote.info()


def test_many_clients_at_once(served, file_of):
    library, remote = served
    birds = add(remote, file_of(BIRDS), "birds.txt")
    found = []
    threads = [Thread(target=lambda: found.append(remote.chunks(birds.id))) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [library.chunks(birds.id)] * 24
