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

from store.catalog.schema import FILE_NAME, connect, delete_database, open_database

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


def make_copy(folder: Path) -> None:
    """Copy the library's documents if they have changed since the newest copy; errors are only logged.

    The library may be in use: this reads one state of it, through a connection of its own.
    """
    draft = folder / FOLDER / DRAFT
    try:
        existing = copies_of(folder)
        draft.parent.mkdir(exist_ok=True)
        delete_database(draft)
        with closing(open_database(draft)) as target:
            source = (folder / FILE_NAME).absolute().as_uri()
            target.execute("ATTACH ? AS library", (f"{source}?mode=rw",))  # without creating it
            with target:
                target.execute("BEGIN")
                state = _state(target)
                if not state or (existing and existing[0].stem.endswith(state)):
                    return
                _copy_tables(target)
        now = time.time()
        milliseconds = f"{now % 1:.3f}"[2:]
        draft.replace(
            draft.with_name(f"library-{time.strftime(STAMP, time.gmtime(now))}-{milliseconds}-{state}.sqlite3")
        )
        for old in existing[MAX_COPIES - 1 :]:
            delete_database(old)
    except (OSError, sqlite3.Error) as error:
        log.warning("the library's database could not be copied: %s", error)
    finally:
        with suppress(OSError):
            delete_database(draft)


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


def _copy_tables(target: sqlite3.Connection) -> None:
    """Copy the attached library's documents and chunks, in the caller's transaction."""
    schema = "SELECT sql FROM library.sqlite_master WHERE tbl_name IN ('documents', 'chunks') AND sql IS NOT NULL"
    for (statement,) in target.execute(f"{schema} ORDER BY type = 'table' DESC").fetchall():
        target.execute(statement)
    for table in ("documents", "chunks"):
        target.execute(f"INSERT INTO main.{table} SELECT * FROM library.{table}")
    (version,) = target.execute("PRAGMA library.user_version").fetchone()
    target.execute(f"PRAGMA main.user_version = {version}")


def _state(connection: sqlite3.Connection) -> str:
    """Return eight digits that identify the attached library's documents; empty if there are none."""
    columns = {row[1] for row in connection.execute("PRAGMA library.table_info(documents)")}
    content = "checksum" if "checksum" in columns else "name"
    query = f"SELECT id, {content} FROM library.documents WHERE NOT pending ORDER BY id"
    rows = connection.execute(query).fetchall()
    if "collections" in columns:
        query = "SELECT id, collections FROM library.documents WHERE NOT pending AND collections != '[]' ORDER BY id"
        rows += connection.execute(query).fetchall()
    return sha256(repr(rows).encode("utf-8", "surrogatepass")).hexdigest()[:8] if rows else ""
