"""Who did what to the library, by whichever way, is in the audit log; questions are not."""

import hashlib
import json
from dataclasses import replace
from threading import Event

import httpx
import pytest
from gradio_client import Client, handle_file

from backend.interface.backend import IngestProgress
from server.audit import audited
from server.auth import FAILURES
from store.audit import ACTIONS, REFUSALS, AuditLog
from store.errors import KVScopeError, NoSuchDocument, StoreFull
from store.types import Document
from tests.server.conftest import GUARDED, KEYS, PASSWORD, serving, until
from tests.support.fake_backend.backend import FakeBackend

BEARER = {"Authorization": f"Bearer {KEYS[0]}"}
KEY = f"key {hashlib.sha256(KEYS[0].encode()).hexdigest()[:8]}"
TEXT = "Xylophonquartz is written here."
SHA = hashlib.sha256(TEXT.encode()).hexdigest()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(folder):
    with serving(GUARDED, AuditLog(folder)) as server:
        yield server


def entries(folder, file=ACTIONS):
    """Return the entries so far, without their times, and empty the file."""
    path = folder / "audit" / file
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    path.unlink(missing_ok=True)
    assert all(entry.pop("time") for entry in found)
    return found


def entry(client, action, outcome="ok", **details):
    return {"client": client, "action": action, "outcome": outcome, **details}


def test_each_action_of_the_apis_has_its_entry_and_questions_have_none(server, folder, tmp_path):
    entries(folder)
    (tmp_path / "a.txt").write_text(TEXT)
    gradio = Client(server.url, headers=BEARER, verbose=False)
    for _ in range(2):
        gradio.predict(handle_file(tmp_path / "a.txt"), api_name="/add_document")
    gradio.predict(SHA, "b.txt", api_name="/rename_document")
    gradio.predict(SHA, api_name="/reindex_document")
    gradio.predict("What is xylophonquartz?", api_name="/ask")
    body = {"messages": [{"role": "user", "content": "What is xylophonquartz?"}]}
    assert httpx.post(f"{server.url}v1/chat/completions", json=body, headers=BEARER, timeout=60).status_code == 200
    assert httpx.get(f"{server.url}library.zip", headers=BEARER, timeout=60).status_code == 200
    assert httpx.get(f"{server.url}ratings.jsonl", headers=BEARER, timeout=60).text == ""
    gradio.predict(SHA, api_name="/delete_document")
    gradio.predict("What is xylophonquartz?", api_name="/delete_document")
    assert "xylophonquartz" not in (folder / "audit" / ACTIONS).read_text().lower()
    document = {"document": SHA}
    assert entries(folder) == [
        entry(KEY, "add", name="a.txt", **document),
        entry(KEY, "add", "unchanged", name="a.txt", **document),
        entry(KEY, "rename", name="a.txt", **document, new_name="b.txt"),
        entry(KEY, "reindex", name="b.txt", **document),
        entry(KEY, "export"),
        entry(KEY, "export-ratings"),
        entry(KEY, "delete", name="b.txt", **document),
        entry(KEY, "delete", "unchanged"),
    ]


def test_logins_are_recorded_with_the_session_that_later_acts(server, folder):
    for file in (ACTIONS, REFUSALS):
        entries(folder, file)
    with httpx.Client(base_url=server.url, timeout=60) as browser:
        for password in ["wrong", PASSWORD, *["wrong"] * FAILURES]:
            browser.post("/login", data={"password": password})
        token = browser.cookies["kvscope_session"]
        assert browser.get("/library.zip").status_code == 200
        browser.post("/logout")
        browser.post("/logout")  # there is no session any more
    session = f"session {hashlib.sha256(token.encode()).hexdigest()[:8]}"
    assert entries(folder) == [
        entry(session, "login", address="127.0.0.1"),
        entry(session, "export"),
        entry(session, "logout"),
    ]
    failures = [entry("127.0.0.1", "login", "failed")] * FAILURES
    assert entries(folder, REFUSALS) == [*failures, entry("127.0.0.1", "login", "throttled")]
    for _ in range(3):  # throttled logins are recorded once a minute
        assert httpx.post(f"{server.url}login", data={"password": "wrong"}).status_code == 429
    assert entries(folder, REFUSALS) == []


def test_no_secret_is_recorded(tmp_path):
    with serving(GUARDED, AuditLog(tmp_path)) as server:
        for password in ("a wrong one", PASSWORD):
            httpx.post(f"{server.url}login", data={"password": password})
        assert httpx.get(f"{server.url}library.zip", headers=BEARER, timeout=60).status_code == 200
    texts = {path.name: path.read_text() for path in (tmp_path / "audit").iterdir()}
    assert len(texts[ACTIONS].splitlines()) == 2 and len(texts[REFUSALS].splitlines()) == 1
    assert not [secret for secret in (*KEYS, PASSWORD, "a wrong one") for text in texts.values() if secret in text]


def test_outcomes_of_files(tmp_path):
    for name, content in (("a.txt", TEXT), ("empty.txt", "")):
        (tmp_path / name).write_text(content)
    files = [(tmp_path / name, name) for name in ("empty.txt", "a.txt")]
    fake = FakeBackend(pace_s=0)
    backend = audited(fake, AuditLog(tmp_path))
    *_, states = backend.ingest(files, Event())
    assert [state.stage for state in states] == ["failed", "done"]
    assert entries(tmp_path) == [
        entry("", "add", "failed", name="empty.txt"),
        entry("", "add", name="a.txt", document=SHA),
    ]
    fake.stored_documents = []
    steps = backend.ingest(files[1:], Event())
    next(steps)
    steps.close()  # the client has gone
    assert entries(tmp_path) == [entry("", "add", "failed", name="a.txt")]
    list(backend.ingest([*files[1:], (files[1][0], "copy.txt")], Event()))
    added = entry("", "add", name="a.txt", document=SHA)
    assert entries(tmp_path) == [added, added | {"outcome": "unchanged"}]


def test_a_document_has_its_entry_as_soon_as_it_is_in_the_library(tmp_path):
    fake = FakeBackend(documents=[Document(SHA, "a (2).txt", 1, None, 1, 0.0)])
    waiting = [IngestProgress(name, "waiting", 0, 1) for name in ("a.txt", "b.txt", "c.txt")]
    failed, indexed, prefilled = (replace(waiting[0], stage=stage) for stage in ("failed", "indexed", "prefilled"))
    backend = audited(fake, AuditLog(tmp_path))
    states = [
        waiting,
        [replace(indexed, document_id=SHA), *waiting[1:]],
        [replace(prefilled, document_id=SHA), *waiting[1:]],
        [replace(prefilled, document_id=SHA), failed, waiting[2]],
    ]
    fake.ingest = lambda files, cancel: (step for step in states)
    steps = backend.ingest([(tmp_path, state.name) for state in waiting], Event())
    added, refused = entry("", "add", name="a (2).txt", document=SHA), entry("", "add", "failed", name="b.txt")
    for expected in ([], [added], [], [refused]):
        next(steps)
        assert entries(tmp_path) == expected
    steps.close()
    assert entries(tmp_path) == [entry("", "add", "failed", name="c.txt")]


def test_changes_of_settings_have_the_names_of_the_fields_and_clearing_the_cache_has_an_entry(tmp_path, monkeypatch):
    fake = FakeBackend(pace_s=0)
    backend = audited(fake, AuditLog(tmp_path))
    before = backend.models.current()
    backend.models.apply(replace(before, chunk_size=77, model="someone/secret"))
    until(lambda: backend.models.current() != before and not backend.models.reload_status().running)
    with pytest.raises(KVScopeError):
        backend.models.apply(backend.models.current())

    def set_budget(tier, budget_bytes):
        fake.models.settings = replace(fake.models.settings, cpu_cache_gib=0.5)

    monkeypatch.setattr(fake.cache, "set_budget", set_budget)
    backend.cache.set_budget("host", 2**29)
    backend.clear()
    assert fake.cleared and backend.cache.snapshot() and backend.models.devices()
    assert entries(tmp_path) == [
        entry("", "settings", fields="model chunk_size"),
        entry("", "settings", "failed", fields=""),
        entry("", "settings", fields="cpu_cache_gib"),
        entry("", "clear-cache"),
    ]


def test_an_action_that_fails_is_recorded_and_its_error_is_passed_on(tmp_path, monkeypatch):
    fake = FakeBackend()
    backend = audited(fake, AuditLog(tmp_path))
    service = getattr(backend, "library")  # noqa: B009

    def full(*_):
        raise StoreFull("The disk is full.")

    monkeypatch.setattr(fake, "delete", full)
    monkeypatch.setattr(fake, "export", full)
    with pytest.raises(StoreFull):
        backend.delete(SHA)
    with pytest.raises(StoreFull):
        backend.export(None)
    with pytest.raises(NoSuchDocument):
        list(service.reindex([SHA], Event()))
    with pytest.raises(NoSuchDocument):
        service.rename(SHA, "b.txt")
    document = {"document": SHA}
    assert entries(tmp_path) == [
        entry("", "delete", "failed", **document),
        entry("", "export", "failed"),
        entry("", "reindex", "failed", **document),
        entry("", "rename", "failed", **document),
    ]


def test_an_unwritable_log_stops_nothing(tmp_path):
    (tmp_path / "audit").write_text("not a folder")
    (tmp_path / "a.txt").write_text(TEXT)
    fake = FakeBackend(pace_s=0)
    backend = audited(fake, AuditLog(tmp_path))
    *_, _ = backend.ingest([(tmp_path / "a.txt", "a.txt")], Event())
    backend.delete(SHA)
    assert fake.stored_documents == []
