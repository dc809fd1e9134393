"""Write files durably: a reader finds the old content or the new, also after a crash."""

import os
import shutil
import time
from itertools import count
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a file's content. Raises OSError, with the old content in place and no draft left."""
    draft = path.with_name(f"{path.name}.draft")
    try:
        write_synced(draft, data)
        replace_synced(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and flush it to the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_synced(source: Path, target: Path) -> None:
    """Rename a file over another of the same folder and flush the folder's entries to the disk."""
    os.replace(source, target)
    if os.name != "posix":
        return  # only POSIX can open a folder; NTFS journals its entries itself
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def copy_aside(path: Path) -> Path:
    """Keep a damaged file under a name with today's date next to it, before it is replaced; return the new path.

    A hard link where there are such: it needs no space, and the file need not be readable.
    """
    stem = f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (f"{stem}-{number}" if number else stem for number in count())
    target = next(copy for name in names if not (copy := path.with_name(name)).exists())
    try:
        os.link(path, target)
    except OSError:
        shutil.copyfile(path, target)
    return target
