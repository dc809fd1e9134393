"""Documents and chunks as rows of one SQLite file, with the lexical index in the same transactions.

A document is 'pending' from before its first trace anywhere until everything of it is in, and again from before its
first vector is removed. Only complete documents have chunks here and are shown; what a killed process leaves is
pending.

Vectors are filed under a document's `owner`: its id, until it is cut anew. A new cut grows beside the old one under a
pending row of its own, and one transaction exchanges the two owners; what is pending then is the old cut.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from store.catalog.bm25 import BM25Index
from store.catalog.fulltext import ChunkText
from store.disk_full import disk_full_as_store_full
from store.errors import NoSuchDocument
from store.names import unique_name
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
CAME_LATER = {  # columns that libraries of an earlier version get when they are opened; NULL is 'not known'
    "documents": {
        "owner": "TEXT",  # NULL: its id
        "page_starts": "TEXT",  # JSON
        "chunk_tokens": "INTEGER",
        "chunk_overlap": "INTEGER",
        "warning": "TEXT NOT NULL DEFAULT ''",
    },
    "chunks": {"gap": "TEXT"},
}
DOCUMENT = """
SELECT id, name, size_bytes, pages, chunks, added_at, warning, chunk_tokens, chunk_overlap
FROM documents WHERE NOT pending
"""
OWNER = "coalesce(owner, id)"
CHUNK = """
SELECT chunks.id, document_id, documents.name, number, page, start, end, text
FROM chunks JOIN documents ON documents.id = document_id WHERE NOT pending
"""


class Catalog:
    """The tables. The caller takes care of threads. Methods that write raise StoreFull, with nothing changed."""

    def __init__(self, path: Path) -> None:
        with disk_full_as_store_full(f"open {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.executescript(SCHEMA)
            self._add_columns()
            self.bm25 = BM25Index(self._connection)

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

    def owner(self, document_id: str) -> str:
        """Return the name under which a complete document's vectors are filed. Raises NoSuchDocument."""
        if not (owners := self.owners([document_id])):
            raise NoSuchDocument("This document is not in the library.")
        return owners[0]

    def owners(self, document_ids: Sequence[str]) -> list[str]:
        """Return `owner` of each of these documents that is here and complete."""
        query = f"SELECT {OWNER} FROM documents WHERE NOT pending AND id IN (SELECT value FROM json_each(?))"
        return [row[0] for row in self._connection.execute(query, (json.dumps(list(document_ids)),))]

    def page_starts(self, document_id: str) -> tuple[int, ...] | None:
        """Return the character where each page begins; None if that is not known."""
        row = self._connection.execute("SELECT page_starts FROM documents WHERE id = ?", (document_id,)).fetchone()
        return tuple(json.loads(row[0])) if row and row[0] else None

    def chunk_spans(self, document_id: str) -> list[tuple[int, int, int | None]]:
        """Return (start, end, page) of a document's chunks in reading order."""
        query = "SELECT start, end, page FROM chunks WHERE document_id = ? ORDER BY number"
        return self._connection.execute(query, (document_id,)).fetchall()

    def chunk_texts(self, document_id: str, start: int, end: int) -> list[ChunkText]:
        """Return the chunks with a character in [start, end), in reading order."""
        query = "SELECT start, text, gap FROM chunks WHERE document_id = ? AND end > ? AND start < ? ORDER BY number"
        return [ChunkText(*row) for row in self._connection.execute(query, (document_id, start, end))]

    def pending_owners(self) -> list[str]:
        """Return the owners of vectors that belong to nothing whole: half added, half deleted, or an old cut."""
        return [row[0] for row in self._connection.execute(f"SELECT {OWNER} FROM documents WHERE pending")]

    def count_segments(self) -> int:
        """Return how many vectors the complete documents have together."""
        row = self._connection.execute("SELECT coalesce(sum(passages), 0) FROM documents WHERE NOT pending")
        return row.fetchone()[0]

    def insert_pending(self, document: Document, page_starts: Sequence[int] = ()) -> Document:
        """Enter a document as pending, under a name that no other has; return it with that name."""
        with self._writing("add a document"):
            document = replace(document, name=unique_name(document.name, self._names()))
            self._enter(document, json.dumps(list(page_starts)))
        return document

    def insert_pending_rechunk(self, document_id: str) -> str:
        """Enter a new cut of a complete document as pending; return its owner. Raises NoSuchDocument."""
        with self._writing("cut a document anew"):
            _, _, number = self.owner(document_id).partition(".")
            owner = f"{document_id}.{int(number or 0) + 1}"
            self._enter(Document(owner, "", 0, None, 0, 0.0), None)
        return owner

    def complete(self, document_id: str, chunks: Sequence[Chunk], gaps: Sequence[str], passages: int) -> None:
        """Enter a pending document's chunks and their words, and show it: one transaction."""
        with self._writing("index a document"):
            self._put(chunks, gaps)
            self._connection.execute(
                "UPDATE documents SET pending = 0, chunks = ?, passages = ? WHERE id = ?",
                (len(chunks), passages, document_id),
            )

    def replace_chunks(
        self,
        cut: Document,
        owner: str,
        chunks: Sequence[Chunk],
        gaps: Sequence[str],
        page_starts: Sequence[int],
        passages: int,
    ) -> str:
        """Put a new cut in the old one's place: one transaction. Return the old one's owner, which is pending now.

        cut    the document with the settings of its new cut, and its warning
        owner  of the new cut's vectors

        Raises NoSuchDocument, with nothing changed, if the document was deleted meanwhile.
        """
        with self._writing("index a document"):
            old = self.owner(cut.id)
            self._take(cut.id)
            self._put(chunks, gaps)
            self._connection.execute(
                "UPDATE documents SET owner = ?, chunks = ?, passages = ?, page_starts = ?, chunk_tokens = ?, "
                "chunk_overlap = ?, warning = ? WHERE id = ?",
                (
                    *(owner, len(chunks), passages, json.dumps(list(page_starts))),
                    *(cut.chunk_tokens, cut.chunk_overlap, cut.warning, cut.id),
                ),
            )
            self._connection.execute("UPDATE documents SET owner = ? WHERE id = ?", (old, owner))
        return old

    def rename(self, document_id: str, name: str) -> Document:
        """Give a complete document this name, numbered if another has it. Raises NoSuchDocument."""
        with self._writing("rename a document"):
            self.owner(document_id)
            name = unique_name(name, self._names(but=document_id))
            self._connection.execute("UPDATE documents SET name = ? WHERE id = ?", (name, document_id))
        renamed = self.document(document_id)
        assert renamed is not None
        return renamed

    def set_segment_count(self, document_id: str, passages: int) -> None:
        """Correct a document's number of vectors after they were made anew."""
        with self._writing("rebuild the vectors"):
            self._connection.execute("UPDATE documents SET passages = ? WHERE id = ?", (passages, document_id))

    def hide(self, document_id: str) -> None:
        """Hide a document and remove its chunks and their words, until `remove`: one transaction."""
        with self._writing("delete a document"):
            self._connection.execute("UPDATE documents SET pending = 1 WHERE id = ?", (document_id,))
            self._take(document_id)

    def delete_pending(self, owner: str) -> None:
        """Remove what is pending under this owner; it has no chunks here."""
        with self._writing("delete a document"):
            self._connection.execute(f"DELETE FROM documents WHERE pending AND {OWNER} = ?", (owner,))

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        with disk_full_as_store_full(what), self._connection:
            yield

    def _add_columns(self) -> None:
        for table, columns in CAME_LATER.items():
            there = {row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")}
            for name in columns.keys() - there:
                self._connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {columns[name]}")

    def _names(self, but: str = "") -> set[str]:
        return {name for (name,) in self._connection.execute("SELECT name FROM documents WHERE id != ?", (but,))}

    def _enter(self, document: Document, page_starts: str | None) -> None:
        self._connection.execute(
            "INSERT INTO documents (id, name, size_bytes, pages, chunks, added_at, passages, pending, owner, "
            "page_starts, chunk_tokens, chunk_overlap, warning) VALUES (?, ?, ?, ?, 0, ?, 0, 1, ?, ?, ?, ?, ?)",
            (
                *(document.id, document.name, document.size_bytes, document.num_pages, document.added_at, document.id),
                *(page_starts, document.chunk_tokens, document.chunk_overlap, document.warning),
            ),
        )

    def _put(self, chunks: Sequence[Chunk], gaps: Sequence[str]) -> None:
        rows = []
        for chunk, gap in zip(chunks, gaps, strict=True):
            cursor = self._connection.execute(
                "INSERT INTO chunks (id, document_id, number, page, start, end, text, gap) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (chunk.id, chunk.document_id, chunk.index, chunk.page, chunk.start, chunk.end, chunk.text, gap),
            )
            rows.append((cursor.lastrowid or 0, chunk.id, chunk.text))
        self.bm25.add(rows)

    def _take(self, document_id: str) -> None:
        rows = self._connection.execute("SELECT row FROM chunks WHERE document_id = ?", (document_id,))
        self.bm25.delete([row for (row,) in rows])
        self._connection.execute("DELETE FROM chunks WHERE document_id = ?", (document_id,))
