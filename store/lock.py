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
    `url` is the address at which this process serves, if it does.
    """

    def __init__(self, root: Path, url: str = "") -> None:
        self._holder = root / ".holder.json"
        self._lock = FileLock(root / ".lock", thread_local=False, fallback_to_soft=False)
        try:
            root.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            self._holder.write_text(json.dumps({"pid": os.getpid(), "started_at": time.time(), "url": url}))
        except Timeout:
            raise self._in_use(root) from None
        except OSError as error:
            self._lock.release()
            raise FolderUnusable(f"{root} cannot be used ({error.strerror}).") from error

    def close(self) -> None:
        """Release the lock; later calls do nothing."""
        if self._lock.is_locked:
            self._holder.unlink(missing_ok=True)
            self._lock.release()

    def _in_use(self, root: Path) -> FolderInUse:
        try:
            holder = json.loads(self._holder.read_text())
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(holder["started_at"])))
            process, url = f"process {int(holder['pid'])}, started {since}", str(holder.get("url", ""))
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            process, url = "another process", ""
        return FolderInUse(f"{root} is in use by {process}.", url)
