"""Uploads are deleted after their last use; other files that Gradio has stored, after a day."""

import os
from contextlib import suppress
from time import time

from ui.upload_files import MAX_AGE_S, delete_old, in_use


def test_an_upload_is_deleted_after_its_last_use_whatever_happens(tmp_path):
    path = tmp_path / "upload.txt"
    path.touch()
    with suppress(ValueError), in_use([path, path]):
        with in_use([path]):
            pass
        assert path.exists()
        raise ValueError
    assert not path.exists()
    with in_use([path]):  # by another session, which finds it deleted
        pass


def test_files_without_a_use_are_deleted_when_they_are_old(tmp_path):
    paths = {name: tmp_path / "hash" / name for name in ("new", "old", "old in use")}
    (tmp_path / "hash").mkdir()
    for name, path in paths.items():
        path.touch()
        age_s = MAX_AGE_S + (10 if "old" in name else -10)
        os.utime(path, times=(time() - age_s, time() - age_s))
    with in_use([paths["old in use"]]):
        delete_old(tmp_path)
        assert {name for name, path in paths.items() if path.exists()} == {"new", "old in use"}
    delete_old(tmp_path / "missing")
