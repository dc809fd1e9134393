"""The catalog's tables, their version, and how a database of an earlier version becomes one of this version."""

import sqlite3
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from store.catalog.bm25 import BM25Index
from store.errors import NewerLibrary
from store.ingest.language import language_of

FILE_NAME = "library.sqlite3"
TABLES = (
    """CREATE TABLE IF NOT EXISTS documents (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, size_bytes INTEGER NOT NULL, pages INTEGER, chunks INTEGER NOT NULL,
    added_at REAL NOT NULL, passages INTEGER NOT NULL, pending INTEGER NOT NULL
)""",  # `passages` counts embedding segments
    """CREATE TABLE IF NOT EXISTS chunks (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, document_id TEXT NOT NULL, number INTEGER NOT NULL,
    page INTEGER, start INTEGER NOT NULL, end INTEGER NOT NULL, text TEXT NOT NULL
)""",
    "CREATE INDEX IF NOT EXISTS chunks_of_document ON chunks (document_id, number)",
)
ADDED_COLUMNS = {  # in the libraries of version 0.1 some are missing; NULL means unknown
    "documents": {
        "owner": "TEXT",  # NULL: its id
        "page_starts": "TEXT",  # JSON
        "chunk_tokens": "INTEGER",
        "chunk_overlap": "INTEGER",
        "warning": "TEXT NOT NULL DEFAULT ''",
        "parser_version": "INTEGER",
    },
    "chunks": {"gap": "TEXT", "context": "TEXT NOT NULL DEFAULT ''"},
}
SEALED_DOCUMENT = "id, name, size_bytes, pages, chunks, added_at, owner, page_starts, warning"
SEALED_CHUNKS = "id, number, page, start, end, text, gap, context"


def open_database(path: Path) -> sqlite3.Connection:
    """Open a database; temporary data stays in memory, since SQLite's files for it are in a folder of the system."""
    connection = sqlite3.connect(path, check_same_thread=False, uri=True)  # so that it can attach others by URI
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def connect(path: Path) -> sqlite3.Connection:
    """Open a database for reading and writing; deleted text is overwritten with zeros."""
    connection = open_database(path)
    try:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA journal_mode = WAL")
    except BaseException:
        connection.close()
        raise
    return connection


def delete_database(path: Path) -> None:
    """Delete a database that is not open, with SQLite's files next to it."""
    for suffix in ("-wal", "-shm", "-journal", ""):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def check_version_of_file(path: Path) -> None:
    """Raise NewerLibrary for a database of a newer version, even if SQLite cannot read it."""
    with path.open("rb") as file:
        header = file.read(64)
    if header.startswith(b"SQLite format 3\0"):
        _check_version(int.from_bytes(header[60:64]))  # where SQLite's file format has `user_version`


def schema_version(connection: sqlite3.Connection) -> int:
    """Return the version of a database, 0 if it is empty or of version 0.1. Raises NewerLibrary."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    _check_version(version)
    return version


def _check_version(version: int) -> None:
    if version > len(MIGRATIONS):
        raise NewerLibrary(f"The library has format {version}; this version of KVScope reads up to {len(MIGRATIONS)}.")


def has_tables(connection: sqlite3.Connection) -> bool:
    """Return whether a database is a library's, of any version."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'documents'").fetchone() is not None


def is_outdated(connection: sqlite3.Connection) -> bool:
    """Return whether a database is of an earlier version. Raises NewerLibrary."""
    return schema_version(connection) < len(MIGRATIONS)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a database to the current version, each step in a transaction of its own. Raises NewerLibrary."""
    for version, step in enumerate(MIGRATIONS[schema_version(connection) :], schema_version(connection) + 1):
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            step(connection)
            connection.execute(f"PRAGMA user_version = {version}")


def _create_tables(connection: sqlite3.Connection) -> None:
    for statement in TABLES:
        connection.execute(statement)
    for table, columns in ADDED_COLUMNS.items():
        existing = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        for name in columns.keys() - existing:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {columns[name]}")
    BM25Index(connection)


def _add_checksums(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE documents ADD COLUMN checksum TEXT")  # NULL while pending
    for (document_id,) in connection.execute("SELECT id FROM documents WHERE NOT pending").fetchall():
        seal(connection, document_id)


def _add_collections(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE documents ADD COLUMN collections TEXT NOT NULL DEFAULT '[]'")  # JSON; unsealed


def _add_languages(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE documents ADD COLUMN language TEXT NOT NULL DEFAULT ''")  # unsealed
    for (document_id,) in connection.execute("SELECT id FROM documents WHERE NOT pending").fetchall():
        query = "SELECT text FROM chunks WHERE document_id = ? ORDER BY number"
        language = language_of("\n".join(text for (text,) in connection.execute(query, (document_id,))))
        connection.execute("UPDATE documents SET language = ? WHERE id = ?", (language, document_id))


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    _create_tables,
    _add_checksums,
    _add_collections,
    _add_languages,
)


def seal(connection: sqlite3.Connection, document_id: str) -> None:
    """Store the checksum of a document's current row and chunks."""
    digest = checksum(connection, document_id)
    connection.execute("UPDATE documents SET checksum = ? WHERE id = ?", (digest, document_id))


def checksum(connection: sqlite3.Connection, document_id: str) -> str:
    """Return the SHA-256 of all that is stored of a document, in hex, except what can be computed from it."""
    document = connection.execute(f"SELECT {SEALED_DOCUMENT} FROM documents WHERE id = ?", (document_id,))
    chunks = connection.execute(
        f"SELECT {SEALED_CHUNKS} FROM chunks WHERE document_id = ? ORDER BY number", (document_id,)
    )
    return digest_of(document.fetchone(), chunks)


def digest_of(document: tuple[object, ...], chunks: sqlite3.Cursor | list[tuple[object, ...]]) -> str:
    """Return the checksum of these values of SEALED_DOCUMENT and SEALED_CHUNKS."""
    digest = sha256(repr(document).encode("utf-8", "surrogatepass"))
    for chunk in chunks:
        digest.update(repr(chunk).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
