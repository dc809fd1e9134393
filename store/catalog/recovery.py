"""Find damage in the library's database, and rebuild it from what can still be read and from its copies.

Documents cannot be computed again, unlike vectors and KV. A damaged database is therefore kept under a dated name; a
new one gets every document whose checksum is right, from the damaged one first and then from the copies, newest first.
"""

import logging
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from store.atomic import copy_aside, replace_synced
from store.catalog.copies import READING, copies_of
from store.catalog.schema import (
    FILE_NAME,
    check_version_of_file,
    checksum,
    connect,
    delete_database,
    has_tables,
    migrate,
    open_database,
    schema_version,
)
from store.catalog.stored import StoredDocument, documents_in, insert
from store.disk_full import disk_full_as_store_full, is_disk_full
from store.names import clean_name, unique_name

MAX_NAMES = 5  # of lost documents in a notice
USABLE = {  # errors that are no damage, by their primary code
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_CANTOPEN,
}
log = logging.getLogger("kvscope")


def find_damage(folder: Path) -> str:
    """Return what is wrong with the database in a library's folder, as the end of a sentence; empty if nothing is.

    Reads all of it: 100 MB take about a second. Raises NewerLibrary.
    """
    path = folder / FILE_NAME
    has_traces = (folder / "vectors" / "chroma.sqlite3").exists() or bool(copies_of(folder))
    if not path.exists() or not path.stat().st_size:
        return ("is missing" if not path.exists() else "is empty") if has_traces else ""
    check_version_of_file(path)
    try:
        with closing(connect(path)) as connection:
            if not has_tables(connection):  # they can be lost with a damaged log
                return "is damaged (its tables are missing)" if has_traces or schema_version(connection) else ""
            return _inspect(connection)
    except sqlite3.DatabaseError as error:
        if is_disk_full(error) or getattr(error, "sqlite_errorcode", 0) & 0xFF in USABLE:
            raise
        return f"is damaged ({error})"


def _inspect(connection: sqlite3.Connection) -> str:
    (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if answer != "ok":
        return f"is damaged ({' '.join(answer.split())})"
    version = schema_version(connection)
    connection.execute("SELECT count(*) FROM words").fetchone()
    with connection:
        connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    if version < 2:
        return ""
    documents = connection.execute("SELECT id, checksum FROM documents WHERE NOT pending").fetchall()
    num_damaged = sum(checksum(connection, document_id) != expected for document_id, expected in documents)
    return f"is damaged ({num_damaged} of {len(documents)} documents have a wrong checksum)" if num_damaged else ""


def is_readable(path: Path) -> bool:
    """Return whether a copy of a database is not damaged."""
    try:
        with _opened_copy(path) as connection:
            return tuple(connection.execute("PRAGMA quick_check(1)").fetchone()) == ("ok",)
    except (OSError, sqlite3.DatabaseError) as error:
        if is_disk_full(error):
            raise
        return False


def rebuild(folder: Path, damage: str) -> str:
    """Replace a library's database, which `damage` describes; return what happened, in sentences for the user.

    An interruption leaves the old database or the new one. Raises StoreFull.
    """
    path, draft = folder / FILE_NAME, folder / f"{FILE_NAME}.draft"
    restored: dict[str, str] = {}  # names by id
    lost: dict[str, str] = {}
    with disk_full_as_store_full("rebuild the library"):
        delete_database(draft)
        with closing(connect(draft)) as target:
            migrate(target)
            for source in ([path] if path.exists() else []) + copies_of(folder):
                for stored in _read_documents(source):
                    document_id, name = str(stored.document["id"]), clean_name(str(stored.document["name"]))
                    if document_id in restored:
                        continue
                    lost.setdefault(document_id, name)
                    if stored.is_whole:
                        with suppress(sqlite3.IntegrityError), target:
                            restored[document_id] = insert(target, stored, unique_name(name, {*restored.values()}))
        aside = _copy_aside(path)
        for suffix in ("-wal", "-shm"):  # first: with a log of another database, SQLite would damage the new one
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        replace_synced(draft, path)
    notice = _describe(damage, aside, restored, [name for each, name in lost.items() if each not in restored])
    log.error("%s", notice)
    return notice


def restore(connection: sqlite3.Connection, folder: Path, document_ids: Iterable[str]) -> str:
    """Copy documents that a database has lost from its copies; return what happened, in sentences for the user."""
    wanted, names = set(document_ids), {row[0] for row in connection.execute("SELECT name FROM documents")}
    restored: dict[str, str] = {}
    for source in copies_of(folder):
        for stored in _read_documents(source):
            if (document_id := stored.document["id"]) in wanted - restored.keys() and stored.is_whole:
                with suppress(sqlite3.IntegrityError), connection:
                    restored[document_id] = insert(connection, stored, unique_name(stored.document["name"], names))
                    names.add(restored[document_id])
    num_lost = len(wanted) - len(restored)
    notice = f"The library's database had lost {len(wanted)} of its documents. {len(restored)} were restored."
    if num_lost:
        notice += f" {num_lost} are lost: please compare the list with your files and add what is missing."
    log.error("%s", notice)
    return notice


def _copy_aside(path: Path) -> Path | None:
    """Keep a copy of a damaged database and its log; return its path, or None if there is no database."""
    if not path.exists():
        return None
    target = copy_aside(path)
    with suppress(FileNotFoundError):
        shutil.copyfile(f"{path}-wal", f"{target}-wal")
    return target


def _describe(damage: str, aside: Path | None, restored: dict[str, str], lost: list[str]) -> str:
    parts = [f"The library's database {damage.partition(' (')[0].replace('is', 'was', 1)}."]
    count = len(restored)
    parts.append(f"{count} {'document was' if count == 1 else 'documents were'} restored.")
    if lost:
        more = f" and {len(lost) - MAX_NAMES} more" if len(lost) > MAX_NAMES else ""
        parts.append(f"Lost, please add again: {', '.join(sorted(lost)[:MAX_NAMES])}{more}.")
    elif not restored:
        parts.append("Please add your documents again.")
    if aside:
        parts.append(
            f"The old file is kept as {aside.name}, with all of its text; delete it when you no longer need it."
        )
    return " ".join(parts)


def _read_documents(source: Path) -> Iterator[StoredDocument]:
    """Yield the documents of a database, none of one that cannot be read."""
    try:
        with _opened_copy(source) as connection:
            yield from documents_in(connection)
    except (OSError, sqlite3.DatabaseError) as error:
        if is_disk_full(error):
            raise
        log.warning("%s cannot be read: %s", source.name, error)


@contextmanager
def _opened_copy(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a temporary copy of a database, because opening can change it."""
    with TemporaryDirectory(dir=path.parent, prefix=READING) as folder:
        copy = Path(folder) / path.name
        shutil.copyfile(path, copy)
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{path}-wal", f"{copy}-wal")
        with closing(open_database(copy)) as connection:
            connection.row_factory = sqlite3.Row
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            yield connection
