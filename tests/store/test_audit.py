"""The audit log: one whole line per entry, for this user only, of limited size, and never a reason to fail."""

import json
import os
import stat
import subprocess
import sys

import pytest

from store import audit
from store.audit import ACTIONS, NO_LOG, REFUSALS, AuditLog

ID = "a1" * 32


def entries(path):
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "audit"


def test_an_entry_has_time_client_action_outcome_and_document(tmp_path, folder):
    AuditLog(tmp_path).record("key 12345678", "delete", "ok", "a.txt", ID)
    (entry,) = entries(folder / ACTIONS)
    assert entry.pop("time").endswith("+00:00")
    expected = {"client": "key 12345678", "action": "delete", "outcome": "ok", "name": "a.txt", "document": ID}
    assert entry == expected


@pytest.mark.parametrize(
    "name",
    [
        'a\n{"action": "login"}\n',
        "a\r\nb",
        "a\u2028b\u2029c\x85d",
        "\x1b[2Ja",
        "\ud800",
        "\u202efdp.exe",
        '"}\\',
        "x" * 10**6,
    ],
)
def test_a_name_cannot_forge_an_entry_or_control_a_terminal(tmp_path, folder, name):
    AuditLog(tmp_path).record("me", "add", "ok", name, name, new_name=name)
    content = (folder / ACTIONS).read_bytes()
    assert content.endswith(b"}\n") and content.count(b"\n") == 1 and all(32 <= byte < 127 for byte in content[:-1])
    assert len(json.loads(content)["name"]) <= 120 and "document" not in json.loads(content)


def test_files_are_rotated_and_the_oldest_entries_are_lost(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(audit, "MAX_BYTES", 1000)
    log = AuditLog(tmp_path)
    for number in range(200):
        log.record("me", "add", "ok", f"{number}.txt")
    paths = [folder / ACTIONS, *(folder / f"{ACTIONS}.{number}" for number in range(1, audit.NUM_OLD + 1))]
    assert sorted(folder.glob(f"{ACTIONS}*")) == sorted(paths) and all(path.stat().st_size <= 1000 for path in paths)
    names = [entry["name"] for path in reversed(paths) for entry in entries(path)]
    assert names == [f"{number}.txt" for number in range(200 - len(names), 200)] and len(names) > 50


WRITE = """
import sys
from pathlib import Path
from store import audit
audit.MAX_BYTES, audit.NUM_OLD = 200, 99
for number in range(20):
    audit.AuditLog(Path(sys.argv[1])).record("me", "add", "ok", f"{sys.argv[2]}-{number}.txt")
"""


def test_processes_that_write_at_the_same_time_lose_no_entry(tmp_path, folder):
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, str(tmp_path), str(writer)]) for writer in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    names = [entry["name"] for path in folder.glob(f"{ACTIONS}*") for entry in entries(path)]
    assert sorted(names) == sorted(f"{writer}-{number}.txt" for writer in range(3) for number in range(20))


def test_refused_logins_cannot_push_out_other_entries(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(audit, "MAX_BYTES", 1000)
    log = AuditLog(tmp_path)
    log.record("session 1", "login", "ok")
    for _ in range(200):
        log.record("203.0.113.1", "login", "failed")
    assert [entry["outcome"] for entry in entries(folder / ACTIONS)] == ["ok"]
    assert {entry["outcome"] for entry in entries(folder / REFUSALS)} == {"failed"}


@pytest.mark.skipif(os.name != "posix", reason="modes")
def test_only_this_user_may_read_it(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(audit, "MAX_BYTES", 150)
    before = os.umask(0)
    try:
        for _ in range(3):
            AuditLog(tmp_path).record("me", "add", "ok", "a.txt")
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and len(list(folder.iterdir())) > 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_an_action_does_not_fail_with_its_entry(tmp_path, folder, caplog):
    folder.write_text("not a folder")
    with AuditLog(tmp_path).recording("me", "export"):
        pass
    assert "cannot be written" in caplog.text
    folder.unlink()
    (folder / ACTIONS).mkdir(parents=True)
    AuditLog(tmp_path).record("me", "add", "ok")
    AuditLog(tmp_path / "absent").record("me", "add", "ok")
    assert len(caplog.records) == 3


def test_an_entry_that_does_not_fit_on_the_disk_leaves_no_part(tmp_path, folder, caplog, monkeypatch):
    log = AuditLog(tmp_path)
    log.record("me", "add", "ok", "a.txt")
    resource = pytest.importorskip("resource")
    size = (folder / ACTIONS).stat().st_size
    import signal  # noqa: PLC0415

    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))  # as on a disk with ten bytes left
        log.record("me", "add", "ok", "b.txt")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "cannot be written" in caplog.text and (folder / ACTIONS).stat().st_size == size
    log.record("me", "add", "ok", "c.txt")
    assert [entry["name"] for entry in entries(folder / ACTIONS)] == ["a.txt", "c.txt"]


def test_the_outcome_is_that_of_the_block(tmp_path, folder):
    with pytest.raises(KeyError), AuditLog(tmp_path).recording("me", "rename", "a.txt"):
        raise KeyError
    with AuditLog(tmp_path).recording("me", "rename", "a.txt") as details:
        details["new_name"] = "b.txt"
    found = [(entry["outcome"], entry.get("new_name")) for entry in entries(folder / ACTIONS)]
    assert found == [("failed", None), ("ok", "b.txt")]


def test_without_a_folder_nothing_is_recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    NO_LOG.record("me", "add", "ok")
    assert not list(tmp_path.iterdir())
