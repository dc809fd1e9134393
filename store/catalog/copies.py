"""The last generations of the library's database, from which `recovery` restores documents.

Copies have no lexical index: it is computed from the chunks.
"""

import logging
import re
import shutil
import sqlite3
import time
from calendar import timegm
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

from store.catalog.schema import connect, delete_database

FOLDER = "copies"
MAX_COPIES = 3
MAX_AGE_S = 3600.0  # of the newest copy, when a document is added
STAMP = "%Y%m%d-%H%M%S"  # when a copy was made, UTC
NAME = re.compile(r"library-(\d{8}-\d{6})-\d{3}-([0-9a-f]{8})\.sqlite3")  # time, milliseconds, state
DRAFT = "library.draft"
READING = ".reading-"  # prefix of the folders in which databases are read; see `recovery`
log = logging.getLogger("kvscope")


def copies_of(folder: Path) -> list[Path]:
    """Return the copies of the library in a folder, newest first."""
    return sorted((path for path in (folder / FOLDER).glob("library-*") if NAME.fullmatch(path.name)), reverse=True)


def clean_up(folder: Path) -> None:
    """Delete what a killed process left of copies and of reading them."""
    with suppress(OSError):
        delete_database(folder / FOLDER / DRAFT)
        for path in [*folder.glob(f"{READING}*"), *(folder / FOLDER).glob(f"{READING}*")]:
            shutil.rmtree(path, ignore_errors=True)
        for path in (folder / FOLDER).glob("library-*-[ws][ah][lm]"):
            if not path.with_name(path.name[:-4]).exists():
                path.unlink()


def make_copy(connection: sqlite3.Connection, folder: Path) -> None:
    """Copy the library's database if its documents have changed since the newest copy; errors are only logged."""
    try:
        state, existing = _state(connection), copies_of(folder)
        if not state or (existing and existing[0].stem.endswith(state)):
            return
        now = time.time()
        milliseconds = f"{now % 1:.3f}"[2:]
        path = folder / FOLDER / f"library-{time.strftime(STAMP, time.gmtime(now))}-{milliseconds}-{state}.sqlite3"
        draft = path.with_name(DRAFT)
        path.parent.mkdir(exist_ok=True)
        delete_database(draft)
        with closing(sqlite3.connect(draft)) as target:
            connection.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # one file
            target.execute("DROP TABLE IF EXISTS words")
            target.execute("VACUUM")
        draft.replace(path)
        for old in [each for each in copies_of(folder) if each != path][MAX_COPIES - 1 :]:
            delete_database(old)
    except (OSError, sqlite3.Error) as error:
        log.warning("the library's database could not be copied: %s", error)
        with suppress(OSError):
            delete_database(folder / FOLDER / DRAFT)


def is_copy_due(folder: Path) -> bool:
    """Return whether the newest copy is older than MAX_AGE_S, or there is none."""
    for newest in copies_of(folder)[:1]:
        if match := NAME.fullmatch(newest.name):
            return not 0 <= time.time() - timegm(time.strptime(match[1], STAMP)) <= MAX_AGE_S
    return True


def forget(folder: Path, document_id: str) -> None:
    """Delete a document from all copies; one that cannot be changed is deleted itself."""
    for path in copies_of(folder):
        try:
            with closing(connect(path)) as copy:
                with copy:
                    copy.execute("DELETE FROM chunks WHERE document_id = ?", (document_id,))
                    copy.execute("DELETE FROM documents WHERE id = ?", (document_id,))
                copy.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            log.warning("%s is deleted: %s", path, error)
            with suppress(OSError):
                delete_database(path)


def _state(connection: sqlite3.Connection) -> str:
    """Return eight digits that identify the documents in the database; empty if there are none."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(documents)")}
    content = "checksum" if "checksum" in columns else "name"
    rows = connection.execute(f"SELECT id, {content} FROM documents WHERE NOT pending ORDER BY id").fetchall()
    return sha256(repr(rows).encode("utf-8", "surrogatepass")).hexdigest()[:8] if rows else ""
