"""Documents as rows: read from a database that may be damaged, checked, and inserted into another one."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from store.catalog.bm25 import BM25Index
from store.catalog.schema import SEALED_CHUNKS, SEALED_DOCUMENT, digest_of, seal
from store.ingest.language import language_of


@dataclass(frozen=True)
class StoredDocument:
    """A document as a database holds it, whole or not."""

    document: dict[str, Any]  # values by column
    chunks: list[dict[str, Any]]  # likewise, in reading order

    @property
    def is_whole(self) -> bool:
        """Whether its checksum is right; without one, as in earlier versions, whether all chunks are there."""
        if self.document.get("checksum") is None:
            return len(self.chunks) == self.document["chunks"] and bool(self.chunks)
        document = tuple(self.document.get(name) for name in SEALED_DOCUMENT.split(", "))
        chunks = [tuple(chunk.get(name) for name in SEALED_CHUNKS.split(", ")) for chunk in self.chunks]
        return digest_of(document, chunks) == self.document["checksum"]


def documents_in(connection: sqlite3.Connection, document_id: str = "") -> Iterator[StoredDocument]:
    """Yield each complete document once, or only one, however damaged the rest of the database is."""
    seen = set[str]()
    query, values = "SELECT * FROM documents WHERE NOT pending", [document_id] if document_id else []
    if document_id:
        query += " AND id = ?"
    for order in ("ASC", "DESC"):  # around a damaged part
        for row in _rows(connection, f"{query} ORDER BY rowid {order}", *values):
            if row["id"] not in seen:
                seen.add(row["id"])
                yield _read(connection, row)


def _read(connection: sqlite3.Connection, document: dict[str, Any]) -> StoredDocument:
    queries = (
        "SELECT * FROM chunks WHERE document_id = ? ORDER BY number",
        "SELECT * FROM chunks NOT INDEXED WHERE document_id = ? ORDER BY number",  # if the index is damaged
    )
    chunks: list[dict[str, Any]] = []
    for query in queries:
        chunks = list(_rows(connection, query, document["id"]))
        if (stored := StoredDocument(document, chunks)).is_whole:
            return stored
    return StoredDocument(document, chunks)


def _rows(connection: sqlite3.Connection, query: str, *values: str) -> Iterator[dict[str, Any]]:
    """Yield rows up to the first that cannot be read."""
    with suppress(sqlite3.DatabaseError):
        for row in connection.execute(query, values):
            yield dict(row)


def insert(target: sqlite3.Connection, stored: StoredDocument, name: str) -> str:
    """Insert a document under a name, in the caller's transaction; return the name.

    Its language is detected again: no checksum protects it, and earlier versions stored none.
    """
    language = language_of("\n".join(str(chunk["text"]) for chunk in stored.chunks))
    values = {"name": name, "pending": 0, "checksum": None, "language": language}
    _insert_row(target, "documents", stored.document | values)
    words = []
    for chunk in stored.chunks:
        row = _insert_row(target, "chunks", {key: value for key, value in chunk.items() if key != "row"})
        context = chunk.get("context")
        words.append((row, chunk["id"], f"{context}\n\n{chunk['text']}" if context else chunk["text"]))
    BM25Index(target).add(words)
    seal(target, stored.document["id"])
    return name


def _insert_row(target: sqlite3.Connection, table: str, values: dict[str, Any]) -> int:
    known = {column[1] for column in target.execute(f"PRAGMA table_info({table})")}
    row = {name: value for name, value in values.items() if name in known}
    places = ", ".join(f":{name}" for name in row)
    return target.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", row).lastrowid or 0
