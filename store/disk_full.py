"""Tell 'no room left' from every other error, wherever it comes from."""

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
PHRASES = ("disk is full", "no space left", "readonly database", "read-only file system", "quota exceeded")


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error means that nothing more can be written: disk, quota, or a folder turned read-only.

    Chroma gives no codes, so its messages are read.
    """
    if isinstance(error, OSError) and error.errno in ERRNOS:
        return True
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and (code in SQLITE_CODES or code & 0xFF in SQLITE_CODES):
        return True
    return any(phrase in str(error).lower() for phrase in PHRASES)


@contextmanager
def disk_full_as_store_full(what: str) -> Iterator[None]:
    """Raise StoreFull in place of an error that means it; others pass. `what` could not be done, in a few words."""
    try:
        yield
    except StoreFull:
        raise
    except Exception as error:
        if is_disk_full(error):
            raise StoreFull(f"There is no room to {what} ({error}).") from error
        raise
