"""Lock a data folder: two processes writing to it would silently lose rows (Chroma).

The operating system owns the lock and releases it when the process ends, so a leftover lock file locks nothing.
Windows does not allow reading a locked file, so a second file names the process that holds the lock.
"""

import json
import os
import time
from pathlib import Path

from filelock import FileLock, Timeout

from store.errors import FolderInUse, FolderUnusable


class FolderLock:
    """An exclusive lock from construction to `close`, also against other locks of the same process.

    Raises FolderInUse, which names the process holding the lock, and FolderUnusable if the folder is not writable.
    """

    def __init__(self, root: Path) -> None:
        self._holder = root / ".holder.json"
        self._lock = FileLock(root / ".lock", thread_local=False, fallback_to_soft=False)
        try:
            root.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            self._holder.write_text(json.dumps({"pid": os.getpid(), "started_at": time.time()}))
        except Timeout:
            raise FolderInUse(f"{root} is in use by {self._describe_holder()}.") from None
        except OSError as error:
            self._lock.release()
            raise FolderUnusable(f"{root} cannot be used ({error.strerror}).") from error

    def close(self) -> None:
        """Release the lock; later calls do nothing."""
        if self._lock.is_locked:
            self._holder.unlink(missing_ok=True)
            self._lock.release()

    def _describe_holder(self) -> str:
        try:
            holder = json.loads(self._holder.read_text())
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(holder["started_at"])))
            return f"process {int(holder['pid'])}, started {since}"
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return "another process"
