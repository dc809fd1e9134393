"""Documents and chunks as rows of one SQLite file, with the lexical index in the same transactions.

A document is 'pending' from before its first trace anywhere until everything of it is in, and again from before its
first vector is removed. Only complete documents have chunks here and are shown; what a killed process leaves is
pending.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from store.lexical import LexicalIndex
from store.names import numbered
from store.room import full_becomes_store_full
from store.types import Chunk, Document

SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, size_bytes INTEGER NOT NULL, pages INTEGER, chunks INTEGER NOT NULL,
    added_at REAL NOT NULL, passages INTEGER NOT NULL, pending INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS chunks (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, document_id TEXT NOT NULL, number INTEGER NOT NULL,
    page INTEGER, start INTEGER NOT NULL, end INTEGER NOT NULL, text TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS chunks_of_document ON chunks (document_id, number);
"""
DOCUMENT = "SELECT id, name, size_bytes, pages, chunks, added_at FROM documents WHERE NOT pending"
CHUNK = """
SELECT chunks.id, document_id, documents.name, number, page, start, end, text
FROM chunks JOIN documents ON documents.id = document_id WHERE NOT pending
"""


class Catalogue:
    """The tables. The caller takes care of threads. Methods that write raise StoreFull, with nothing changed."""

    def __init__(self, path: Path) -> None:
        with full_becomes_store_full(f"open {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.executescript(SCHEMA)
            self.lexical = LexicalIndex(self._connection)

    def documents(self) -> list[Document]:
        """Return complete documents, newest first."""
        rows = self._connection.execute(f"{DOCUMENT} ORDER BY added_at DESC, rowid DESC")
        return [Document(*row) for row in rows]

    def document(self, document_id: str) -> Document | None:
        row = self._connection.execute(f"{DOCUMENT} AND id = ?", (document_id,)).fetchone()
        return Document(*row) if row else None

    def chunks(self, document_id: str) -> list[Chunk]:
        """Return a complete document's chunks in reading order."""
        rows = self._connection.execute(f"{CHUNK} AND document_id = ? ORDER BY number", (document_id,))
        return [Chunk(*row) for row in rows]

    def chunks_by_id(self, ids: Sequence[str]) -> dict[str, Chunk]:
        """Return those of the chunks that belong to complete documents."""
        found = {}
        for chunk_id in ids:
            row = self._connection.execute(f"{CHUNK} AND chunks.id = ?", (chunk_id,)).fetchone()
            if row:
                found[chunk_id] = Chunk(*row)
        return found

    def pending(self) -> list[str]:
        """Return the ids of documents that are not, or no longer, whole."""
        return [row[0] for row in self._connection.execute("SELECT id FROM documents WHERE pending")]

    def passages(self) -> int:
        """Return how many vectors the complete documents have together."""
        row = self._connection.execute("SELECT coalesce(sum(passages), 0) FROM documents WHERE NOT pending")
        return row.fetchone()[0]

    def begin(self, document: Document) -> Document:
        """Enter a document as pending, under a name that no other has; return it with that name."""
        with self._writing("add a document"):
            taken = {name for (name,) in self._connection.execute("SELECT name FROM documents")}
            name = numbered(document.name, taken)
            self._connection.execute(
                "INSERT INTO documents VALUES (?, ?, ?, ?, 0, ?, 0, 1)",
                (document.id, name, document.size_bytes, document.pages, document.added_at),
            )
        return Document(document.id, name, document.size_bytes, document.pages, 0, document.added_at)

    def complete(self, document_id: str, chunks: Sequence[Chunk], passages: int) -> None:
        """Enter a pending document's chunks and their words, and show it: one transaction."""
        with self._writing("index a document"):
            rows = []
            for chunk in chunks:
                values = (chunk.id, document_id, chunk.number, chunk.page, chunk.start, chunk.end, chunk.text)
                cursor = self._connection.execute("INSERT INTO chunks VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", values)
                rows.append((cursor.lastrowid or 0, chunk.id, chunk.text))
            self.lexical.add(rows)
            self._connection.execute(
                "UPDATE documents SET pending = 0, chunks = ?, passages = ? WHERE id = ?",
                (len(chunks), passages, document_id),
            )

    def count_passages(self, document_id: str, passages: int) -> None:
        """Correct a document's number of vectors after they were made anew."""
        with self._writing("rebuild the vectors"):
            self._connection.execute("UPDATE documents SET passages = ? WHERE id = ?", (passages, document_id))

    def withdraw(self, document_id: str) -> None:
        """Hide a document and remove its chunks and their words, until `remove`: one transaction."""
        with self._writing("delete a document"):
            self._connection.execute("UPDATE documents SET pending = 1 WHERE id = ?", (document_id,))
            rows = self._connection.execute("SELECT row FROM chunks WHERE document_id = ?", (document_id,))
            self.lexical.delete([row for (row,) in rows])
            self._connection.execute("DELETE FROM chunks WHERE document_id = ?", (document_id,))

    def remove(self, document_id: str) -> None:
        """Remove a pending document, which has no chunks here."""
        with self._writing("delete a document"):
            self._connection.execute("DELETE FROM documents WHERE id = ?", (document_id,))

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        with full_becomes_store_full(what), self._connection:
            yield
