"""The files that Gradio stores for uploads and downloads: how long each is kept."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from time import time

MAX_AGE_S = 86_400.0  # of a download, and of an upload whose event never came
_uses = Counter[Path]()  # of uploads: equal files of several sessions are one
_lock = Lock()


@contextmanager
def in_use(uploads: Sequence[Path]) -> Iterator[None]:
    """Enclose the use of uploads; at the end of its last use each is deleted."""
    with _lock:
        _uses.update(uploads)
    try:
        yield
    finally:
        with _lock:
            _uses.subtract(uploads)
            for upload in uploads:
                if _uses[upload] <= 0:
                    del _uses[upload]
                    with suppress(OSError):
                        upload.unlink()


def delete_old(folder: Path) -> None:
    """Delete the files below a folder that are older than MAX_AGE_S and not in use."""
    paths: list[Path] = []
    with suppress(OSError):
        paths += folder.rglob("*")
    for path in paths:
        with suppress(OSError), _lock:  # others delete files, too
            if path not in _uses and path.is_file() and time() - path.stat().st_mtime > MAX_AGE_S:
                path.unlink()
