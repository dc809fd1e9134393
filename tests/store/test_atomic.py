"""An atomic write leaves the new content or the old one, never a part or a draft."""

import errno
import os

import pytest

from store.atomic import write_atomic


def test_a_write_replaces_the_content(tmp_path):
    path = tmp_path / "state.json"
    for content in (b"old", b"", b"new"):
        write_atomic(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_content_and_no_draft(tmp_path, monkeypatch, step):
    path = tmp_path / "state.json"
    write_atomic(path, b"old")

    def fail(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]
