"""The files that Gradio stores for uploads."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

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
