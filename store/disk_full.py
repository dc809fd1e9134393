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
    """Return whether an error means that nothing can be written: full disk, quota, or a read-only folder.

    Chroma's errors carry no code, so their messages are searched.
    """
    if isinstance(error, OSError) and error.errno in ERRNOS:
        return True
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and (code in SQLITE_CODES or code & 0xFF in SQLITE_CODES):
        return True
    return any(message in str(error).lower() for message in MESSAGES)


@contextmanager
def disk_full_as_store_full(action: str) -> Iterator[None]:
    """Raise StoreFull for an error that means a full disk; other errors pass. `action` completes 'cannot ...'."""
    try:
        yield
    except StoreFull:
        raise
    except Exception as error:
        if is_disk_full(error):
            raise store_full(action, error) from error
        raise


def store_full(action: str, error: Exception) -> StoreFull:
    """Return the error for an action that a full disk prevented."""
    return StoreFull(f"The disk is full or read-only: cannot {action} ({error}).")
