"""Watched folders: files become documents, changes follow, and nothing is deleted because a file is missing."""

import os
import time
from threading import Event

import pytest

from backend.runtime.settings import BadSettings, Settings
from engine.errors import ModelNotReady
from server import watched as module
from server.watched import FILE_NAME, WatchedFolders
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


def test_a_folder_must_exist_and_be_apart_from_the_data_folder(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(BadSettings, match="--watch: there is no folder"):
        Settings(data=tmp_path / "data", watch=[tmp_path / "none"])
    for folder in (tmp_path, tmp_path / "data"):
        with pytest.raises(BadSettings, match="must be apart"):
            Settings(data=tmp_path / "data", watch=[folder])
