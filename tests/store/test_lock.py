"""A folder lock excludes other processes and ends with its own."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from store.errors import FolderInUse, FolderUnusable
from store.lock import FolderLock

HOLDER = """
import signal, sys
from pathlib import Path
from store.lock import FolderLock

lock = FolderLock(Path(sys.argv[1]))
print("locked", flush=True)
signal.pause()
"""


def test_a_second_holder_learns_who_the_first_is(tmp_path):
    with closing(FolderLock(tmp_path)), pytest.raises(FolderInUse, match=rf"process {os.getpid()}, started \d{{4}}-"):
        FolderLock(tmp_path)
    FolderLock(tmp_path).close()


def test_folders_are_locked_independently(tmp_path):
    with closing(FolderLock(tmp_path / "a")), closing(FolderLock(tmp_path / "b")):
        pass


def test_closing_twice_does_not_free_the_next_holder(tmp_path):
    first = FolderLock(tmp_path)
    first.close()
    with closing(FolderLock(tmp_path)):
        first.close()
        with pytest.raises(FolderInUse):
            FolderLock(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1, "started_at": 1e99}'])
def test_a_damaged_holder_file_still_gives_the_error(tmp_path, content):
    with closing(FolderLock(tmp_path)):
        (tmp_path / ".holder.json").write_text(content)
        with pytest.raises(FolderInUse, match="another process"):
            FolderLock(tmp_path)


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_an_impossible_folder_is_rejected_with_a_remedy(tmp_path, path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderUnusable, match=r"cannot be used .* --data-dir"):
        FolderLock(tmp_path / path)


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_killing_the_holder_releases_the_lock(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with pytest.raises(FolderInUse, match=f"process {holder.pid}"):
            FolderLock(tmp_path)
        os.kill(holder.pid, signal.SIGKILL)
    FolderLock(tmp_path).close()
