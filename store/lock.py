"""One KVScope per data folder: two of them would lose each other's rows in silence (Chroma).

The lock is the operating system's, so it goes with its process, however that ends; a file left behind locks nobody
out. Who holds it stands in a file beside it, since a locked file cannot be read everywhere.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from store.errors import FolderInUse, FolderUnusable


class FolderLock:
    """Holds a folder from construction to `close`, for this object alone, even within one process.

    Raises FolderInUse, naming the process that holds it, and FolderUnusable where nothing can be written.
    """

    def __init__(self, root: Path, clock: Callable[[], float] = time.time) -> None:
        self._holder = root / ".holder.json"
        self._lock = FileLock(root / ".lock", thread_local=False, fallback_to_soft=False)
        try:
            root.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            self._holder.write_text(json.dumps({"pid": os.getpid(), "started_at": clock()}))
        except Timeout:
            raise FolderInUse(f"{root} is in use by {self._who()}.") from None
        except OSError as error:
            self._lock.release()
            raise FolderUnusable(f"{root} cannot be used ({error.strerror}).") from error

    def close(self) -> None:
        """Let others have the folder; doing it twice is doing it once."""
        if self._lock.is_locked:
            self._holder.unlink(missing_ok=True)
            self._lock.release()

    def __enter__(self) -> "FolderLock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _who(self) -> str:
        try:
            holder = json.loads(self._holder.read_text())
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(holder["started_at"])))
            return f"process {int(holder['pid'])}, started {since}"
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return "another process"
