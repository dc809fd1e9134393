"""Watched folders: files become documents, changes follow, and nothing is deleted because a file is missing."""

import os
import time
from dataclasses import replace
from threading import Event

import pytest

from backend.interface.errors import BadSettings
from backend.interface.library import IngestProgress
from backend.runtime.settings import Settings, read_settings
from engine.errors import ModelNotReady
from server import watched as module
from server import watched_log as log_module
from server.watched import FILE_NAME, WatchedFolders
from server.watched_log import KEEP_S
from store.errors import NoSuchDocument, StoreFull
from tests.server.conftest import until
from tests.support.fake_backend.backend import FakeBackend


@pytest.fixture
def backend():
    return FakeBackend(pace_s=0)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "files"
    (folder / "sub").mkdir(parents=True)
    write(folder / "a.md", "alpha")
    write(folder / "sub" / "b.TXT", "beta")
    for name in (".hidden.md", "~$open.docx", "program.exe", "empty.txt"):
        write(folder / name, "" if name == "empty.txt" else "other")
    (folder / "link.md").symlink_to(folder / "a.md")
    return folder


@pytest.fixture
def watched(backend, folder, tmp_path):
    return WatchedFolders(backend, tmp_path, [folder])


def write(path, text, age_s=60.0):
    path.write_text(text)
    os.utime(path, (time.time() - age_s, time.time() - age_s))


def names(backend):
    return sorted(document.name for document in backend.documents())


def test_files_are_added_once_also_after_a_restart_and_errors_are_shown(watched, backend, folder, tmp_path):
    assert watched.scan()
    assert names(backend) == ["a.md", "b.TXT"]
    (status,) = watched.status()
    assert (status.path, status.num_files, status.is_missing, status.gone) == (str(folder), 3, False, ())
    assert status.errors == ("empty.txt: The file is empty. Choose one that contains text.",)
    backend.delete(backend.documents()[0].id)  # by the user
    again = WatchedFolders(backend, tmp_path, [folder])
    again.start()
    until(lambda: again.status()[0].num_files == 3)
    again.close()
    assert len(backend.documents()) == 1


def test_a_changed_file_replaces_its_document_with_name_and_collections(watched, backend, folder):
    watched.scan()
    old = next(document for document in backend.documents() if document.name == "a.md")
    backend.library.add_to_collection([old.id], "Notes")
    write(folder / "a.md", "alpha and more", age_s=30)
    assert watched.scan()
    new = next(document for document in backend.documents() if document.name == "a.md")
    assert new.id != old.id and new.collections == ("Notes",) and names(backend) == ["a.md", "b.TXT"]
    write(folder / "a.md", "", age_s=20)  # the last version that could be read stays
    watched.scan()
    assert new in backend.documents() and len(watched.status()[0].errors) == 2


def test_a_document_that_the_user_had_added_stays_when_the_file_changes(watched, backend, folder):
    list(backend.ingest([(folder / "a.md", "a.md")], Event()))
    watched.scan()
    write(folder / "a.md", "alpha and more", age_s=30)
    watched.scan()
    assert names(backend) == ["a.md", "a.md", "b.TXT"]


def test_a_file_that_is_still_written_waits_and_one_from_the_future_does_not(watched, backend, folder):
    write(folder / "new.md", "gamma", age_s=0)
    write(folder / "future.md", "delta", age_s=-1000)
    assert not watched.scan()
    assert names(backend) == ["a.md", "b.TXT", "future.md"]


def test_a_renamed_file_keeps_its_document_and_that_of_a_deleted_one_stays_until_the_user_deletes_it(
    watched, backend, folder
):
    watched.scan()
    (folder / "a.md").rename(folder / "c.md")
    watched.scan()
    assert watched.status()[0].gone == () and len(backend.documents()) == 2
    (folder / "c.md").unlink()
    watched.scan()
    (gone,) = watched.status()[0].gone
    assert len(backend.documents()) == 2
    backend.delete(gone)
    assert watched.status()[0].gone == ()
    watched.scan()
    assert watched.status()[0].num_files == 2


def test_a_folder_that_is_not_mounted_loses_nothing(watched, backend, folder):
    watched.scan()
    folder.rename(folder.with_name("elsewhere"))
    watched.scan()
    (status,) = watched.status()
    assert status.is_missing and status.gone == () and len(backend.documents()) == 2
    folder.with_name("elsewhere").rename(folder)
    watched.scan()
    assert not watched.status()[0].is_missing and len(backend.documents()) == 2


def test_while_models_are_loaded_files_wait(watched, backend, monkeypatch):
    def not_ready(files, cancel):
        raise ModelNotReady("Loading.")

    monkeypatch.setattr(backend, "ingest", not_ready)
    assert not watched.scan() and watched.status()[0].num_files == 0
    monkeypatch.undo()
    assert watched.scan() and watched.status()[0].num_files == 3


def test_a_damaged_state_is_ignored_and_changes_are_noticed(watched, backend, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SETTLE_S", 0.05)
    (tmp_path / FILE_NAME).write_text('{"a": 1')
    watched.start()
    until(lambda: names(backend) == ["a.md", "b.TXT"])
    time.sleep(0.2)  # until the folder is watched
    write(folder / "sub" / "new.md", "gamma", age_s=10)
    until(lambda: "new.md" in names(backend))
    watched.close()


def test_a_folder_must_exist_at_the_start_and_be_apart_from_the_data_folder(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(BadSettings, match="--watch: there is no folder"):
        read_settings(["--data", str(tmp_path / "data"), "--watch", str(tmp_path / "none")])
    for folder in (tmp_path, tmp_path / "data", tmp_path / "link"):
        with pytest.raises(BadSettings, match="must be apart"):
            Settings(data=tmp_path / "data", watch=[folder])


def test_a_name_that_is_used_again_leaves_the_renamed_document_alone(watched, backend, folder):
    watched.scan()
    old = next(document for document in backend.documents() if document.name == "a.md")
    backend.library.add_to_collection([old.id], "Notes")
    (folder / "a.md").rename(folder / "old-a.md")
    write(folder / "a.md", "another text", age_s=30)
    watched.scan()
    kept = next(document for document in backend.documents() if document.id == old.id)
    assert kept.collections == ("Notes",) and kept.added_at == old.added_at and len(backend.documents()) == 3


def test_a_document_that_was_added_again_by_hand_is_the_users(watched, backend, folder):
    watched.scan()
    old = next(document for document in backend.documents() if document.name == "a.md")
    backend.delete(old.id)
    list(backend.ingest([(folder / "a.md", "mine.md")], Event()))
    write(folder / "a.md", "alpha and more", age_s=30)
    watched.scan()
    assert names(backend) == ["a.md", "b.TXT", "mine.md"]
    (folder / "a.md").unlink()
    write(folder / "mine.md", "beta two")
    watched.scan()
    assert len(watched.status()[0].gone) == 1


def test_what_could_not_be_added_is_tried_again_at_the_next_start_only(watched, backend, folder, tmp_path, monkeypatch):
    def full(files, cancel):
        yield [IngestProgress(files[0][1], "failed", 0, 1, "The disk is full.")]

    with monkeypatch.context() as patched:
        patched.setattr(backend, "ingest", full)
        watched.scan()
    assert len(watched.status()[0].errors) == 3
    watched.scan(retries=False)
    assert backend.documents() == []
    again = WatchedFolders(backend, tmp_path, [folder])
    again._files = watched._files
    again.scan()
    assert names(backend) == ["a.md", "b.TXT"] and len(again.status()[0].errors) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_pipes_are_no_files_and_a_folder_without_its_files_is_not_mounted(watched, backend, folder):
    os.mkfifo(folder / "pipe.txt")
    watched.scan()
    assert watched.status()[0].num_files == 3
    for name in ("a.md", "sub/b.TXT", "empty.txt"):
        (folder / name).unlink()
    watched.scan()
    assert watched.status()[0].is_missing and watched.status()[0].gone == ()


def the(backend, name):
    return next(each for each in backend.documents() if each.name == name)


def changed(watched, backend, folder):
    """Return the documents before and after a change of a.md that the watcher has followed."""
    watched.scan()
    backend.library.add_to_collection([the(backend, "a.md").id], "Notes")
    old = the(backend, "a.md")
    write(folder / "a.md", "alpha and more", age_s=30)
    watched.scan()
    return old, the(backend, "a.md")


def undoable(watched):
    return [change for change in watched.status()[0].changes if change.can_undo]


def test_an_undone_change_restores_the_document_and_is_not_applied_again(watched, backend, folder, tmp_path):
    old, new = changed(watched, backend, folder)
    content = (folder / "a.md").read_bytes(), (folder / "a.md").stat().st_mtime_ns
    assert [(each.name, each.kind) for each in watched.status()[0].changes] == [
        *[("a.md", "replaced"), ("b.TXT", "added"), ("a.md", "added")]
    ]
    backend.library.add_to_collection([new.id], "Later")
    (change,) = undoable(watched)
    watched.undo(change.id)
    assert the(backend, "a.md") == replace(old, collections=("Later", "Notes")) and len(backend.documents()) == 2
    assert undoable(watched) == [] and watched.status()[0].changes[0].kind == "undone"
    assert ((folder / "a.md").read_bytes(), (folder / "a.md").stat().st_mtime_ns) == content
    again = WatchedFolders(backend, tmp_path, [folder])
    again._files = watched._files
    for each in (watched, again):
        each.scan()
        assert the(backend, "a.md").id == old.id and each.status()[0].changes[0].kind == "undone"
    write(folder / "a.md", "alpha, once more", age_s=20)  # the file changes again
    watched.scan()
    assert the(backend, "a.md").id not in (old.id, new.id) and len(backend.documents()) == 2
    watched.undo(undoable(watched)[0].id)
    assert the(backend, "a.md").id == old.id


def test_only_what_can_be_undone_is_kept(watched, backend, folder, tmp_path, monkeypatch):
    old, new = changed(watched, backend, folder)
    copies = tmp_path / "replaced"
    assert [path.stem for path in copies.iterdir()] == [old.id]
    change = undoable(watched)[0]
    write(folder / "a.md", "alpha, once more", age_s=20)
    watched.scan()
    assert [path.stem for path in copies.iterdir()] == [new.id]  # of each file, the last change
    for stale in (change.id, "none"):
        with pytest.raises(NoSuchDocument, match="no longer"):
            watched.undo(stale)
    with monkeypatch.context() as later:
        later.setattr(time, "time", lambda: change.at + 2 * KEEP_S)
        assert undoable(watched) == []
    for document in backend.documents():  # by the user, who wants the text gone
        backend.delete(document.id)
    assert undoable(watched) == []
    watched.scan()
    assert [*copies.iterdir()] == [] and backend.documents() == []


def test_undoing_keeps_a_new_version_that_the_user_had_added_or_another_file_has(watched, backend, folder):
    watched.scan()
    old = the(backend, "a.md")
    write(folder / "a.md", "beta", age_s=30)  # what b.TXT has
    watched.scan()
    assert names(backend) == ["a.md"]
    watched.undo(undoable(watched)[0].id)
    assert the(backend, "a.md").id == old.id and names(backend) == ["a.md", "b.TXT"]


def test_a_document_that_cannot_be_copied_is_not_replaced_yet(watched, backend, folder, monkeypatch):
    def full(document_id, target):
        raise StoreFull("The disk is full or read-only: cannot keep a replaced document (No space left).")

    with monkeypatch.context() as patched:
        patched.setattr(backend.library, "copy", full)
        changed(watched, backend, folder)
        assert names(backend) == ["a.md", "a.md", "b.TXT"] and undoable(watched) == []
    watched.scan()
    assert names(backend) == ["a.md", "b.TXT"] and len(undoable(watched)) == 1


def test_files_that_are_added_do_not_end_what_can_be_undone(watched, backend, folder, monkeypatch):
    changed(watched, backend, folder)
    monkeypatch.setattr(log_module, "MAX_CHANGES", 3)
    for name in "cdef":
        write(folder / f"{name}.md", name)
    watched.scan()
    assert [each.name for each in watched.status()[0].changes] == ["f.md", "e.md", "a.md"]
    assert len(undoable(watched)) == 1


def test_without_folders_no_copy_is_kept(watched, backend, folder, tmp_path):
    changed(watched, backend, folder)
    WatchedFolders(backend, tmp_path, []).start()
    assert [*(tmp_path / "replaced").iterdir()] == []


def test_a_damaged_log_is_ignored_and_copies_are_kept(watched, backend, folder, tmp_path):
    changed(watched, backend, folder)
    copies = [*(tmp_path / "replaced").iterdir()]
    (tmp_path / "watched-changes.json").write_text('[{"path": 1')
    damaged = WatchedFolders(backend, tmp_path, [folder])
    assert damaged.status()[0].changes == () and damaged.scan()
    assert [*(tmp_path / "replaced").iterdir()] == copies != []


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode there")
def test_names_that_are_not_utf8_are_remembered(watched, backend, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SETTLE_S", 0.05)
    write(folder / os.fsdecode(b"Gr\xf6\xdfe.txt"), "gamma")
    changed(watched, backend, folder)
    (change,) = undoable(watched)
    again = WatchedFolders(backend, tmp_path, [folder])
    again.start()
    until(lambda: again.status()[0].num_files == 4)  # an empty one among them
    assert undoable(again) == [change]
    former = the(backend, "b.TXT")
    write(folder / "sub" / "b.TXT", "another beta", age_s=30)
    until(lambda: former not in backend.documents() and len(backend.documents()) == 3)  # it is replaced, not added
    again.close()


def test_while_a_file_is_being_added_undoing_says_so(watched, backend, folder, monkeypatch):
    monkeypatch.setattr(module, "UNDO_WAIT_S", 0.01)
    changed(watched, backend, folder)
    with watched._lock, pytest.raises(module.FolderBusy):
        watched.undo(undoable(watched)[0].id)
