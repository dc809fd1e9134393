"""Uploads are deleted after their last use."""

from contextlib import suppress

from ui.upload_files import in_use


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
