"""The last generations of the library's database, from which `recovery` restores documents."""

import logging
import sqlite3
import time
from calendar import timegm
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

from store.catalog.schema import connect
from store.disk_full import disk_full_as_store_full
from store.errors import StoreFull

FOLDER = "copies"
STAMP = "%Y%m%d-%H%M%S"  # when a copy was made, UTC
MAX_COPIES = 3
MAX_AGE_S = 3600.0  # of the newest copy, when a document is added
log = logging.getLogger("kvscope")


def copies_of(folder: Path) -> list[Path]:
    """Return the copies of the library in a folder, newest first."""
    return sorted((folder / FOLDER).glob("library-*.sqlite3"), reverse=True)


def make_copy(connection: sqlite3.Connection, folder: Path) -> None:
    """Copy the library's database if its documents have changed since the newest copy; a full disk is logged only."""
    state, existing = _state(connection), copies_of(folder)
    if not state or (existing and existing[0].stem.endswith(state)):
        return
    now = time.time()
    milliseconds = f"{now % 1:.3f}"[2:]
    path = folder / FOLDER / f"library-{time.strftime(STAMP, time.gmtime(now))}-{milliseconds}-{state}.sqlite3"
    draft = path.with_suffix(".draft")
    try:
        with disk_full_as_store_full("copy the library's database"):
            path.parent.mkdir(exist_ok=True)
            draft.unlink(missing_ok=True)
            with closing(sqlite3.connect(draft)) as target:
                connection.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")  # one file
            draft.replace(path)
    except StoreFull as error:
        log.warning("%s", error)
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    for old in copies_of(folder)[MAX_COPIES:]:
        old.unlink(missing_ok=True)


def is_copy_due(folder: Path) -> bool:
    """Return whether the newest copy is older than MAX_AGE_S, or there is none."""
    copies = copies_of(folder)
    if not copies:
        return True
    _, day, second, *_ = copies[0].stem.split("-")
    return time.time() - timegm(time.strptime(f"{day}-{second}", STAMP)) > MAX_AGE_S


def forget(folder: Path, document_id: str) -> None:
    """Delete a document from all copies; one that cannot be changed is deleted itself."""
    for path in copies_of(folder):
        try:
            with closing(connect(path)) as copy:
                with copy:
                    delete_document(copy, document_id)
                copy.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.DatabaseError as error:
            log.warning("%s is deleted: %s", path, error)
            path.unlink(missing_ok=True)


def delete_document(connection: sqlite3.Connection, document_id: str) -> None:
    """Delete a document's row, chunks and words in the current transaction, so that no text of it remains."""
    connection.execute(
        "DELETE FROM words WHERE rowid IN (SELECT row FROM chunks WHERE document_id = ?)", (document_id,)
    )
    connection.execute("DELETE FROM chunks WHERE document_id = ?", (document_id,))
    connection.execute("DELETE FROM documents WHERE id = ?", (document_id,))
    erase_words(connection)


def erase_words(connection: sqlite3.Connection) -> None:
    """Merge the lexical index, which otherwise keeps the words of deleted chunks for a while."""
    connection.execute("INSERT INTO words (words) VALUES ('optimize')")


def _state(connection: sqlite3.Connection) -> str:
    """Return eight digits that identify the documents in the database; empty if there are none."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(documents)")}
    content = "checksum" if "checksum" in columns else "name"
    rows = connection.execute(f"SELECT id, {content} FROM documents WHERE NOT pending ORDER BY id").fetchall()
    return sha256(repr(rows).encode("utf-8", "surrogatepass")).hexdigest()[:8] if rows else ""
