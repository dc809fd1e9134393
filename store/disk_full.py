"""Recognise errors that mean a full or read-only disk, whichever library raises them."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from store.errors import StoreFull

ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}
SQLITE_CODES = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMOPEN,
}
MESSAGES = ("disk is full", "no space left", "readonly database", "read-only file system", "quota exceeded")


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error means that nothing can be written: full disk, quota, or a read-only folder."""
    code = getattr(error, "sqlite_errorcode", 0)
    return (
        (isinstance(error, OSError) and error.errno in ERRNOS)
        or code in SQLITE_CODES
        or code & 0xFF in SQLITE_CODES
        or any(message in str(error).lower() for message in MESSAGES)  # Chroma's errors carry no code
    )


@contextmanager
def disk_full_as_store_full(action: str) -> Iterator[None]:
    """Raise StoreFull for an error that means a full disk; other errors pass. `action` completes 'cannot ...'."""
    try:
        yield
    except Exception as error:
        if isinstance(error, StoreFull) or not is_disk_full(error):
            raise
        reason = (isinstance(error, OSError) and error.strerror) or error  # without the path: clients see it
        raise StoreFull(f"The disk is full or read-only: cannot {action} ({reason}).") from error
