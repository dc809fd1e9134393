"""Documents and chunks in one SQLite file, with the lexical index in the same transactions.

A document is 'pending' from before the first trace of it anywhere until it is complete, and again from before its
first vector is deleted. Only complete documents have chunks here and are listed; a killed process leaves pending ones.

Vectors are filed under a document's `owner`: its id until it is re-chunked. A re-chunked version is built under a
pending row of its own, with the owner `id.1`, `id.2`, ...; one transaction swaps the owners of the two rows.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import TypeAdapter, ValidationError

from store.catalog.bm25 import BM25Index
from store.catalog.copies import clean_up, forget, is_copy_due, make_copy
from store.catalog.document_text import estimate_page_starts, gaps_before, join_chunks
from store.catalog.recovery import find_damage, rebuild, restore
from store.catalog.schema import FILE_NAME, connect, has_tables, is_outdated, migrate, seal
from store.catalog.transfer import ImportResult, export_document, import_library
from store.disk_full import disk_full_as_store_full
from store.errors import NoSuchDocument
from store.ingest.document import ParsedDocument
from store.limits import DEFAULT_LIMITS, Limits
from store.names import unique_name
from store.types import Chunk, Document

DELETED = 2  # value of `pending` of a document that was complete
BUSY_TIMEOUT_MS = 5000  # SQLite's wait for other connections, here and in Python by default
DOCUMENT = """
SELECT id, name, size_bytes, pages, chunks, added_at, warning, chunk_tokens, chunk_overlap,
    parser_version, language, collections
FROM documents WHERE NOT pending
"""
OWNER = "coalesce(owner, id)"
CHUNK = """
SELECT chunks.id, document_id, documents.name, number, page, start, end, text, context
FROM chunks JOIN documents ON documents.id = document_id WHERE NOT pending
"""
_NAMES = TypeAdapter(tuple[str, ...])


class Catalog:
    """The tables. Not thread-safe, except `copy_if_due`. Each other method that writes is one transaction, and raises
    StoreFull.
    """

    def __init__(self, folder: Path) -> None:
        """Open the database in a library's folder, which is created; a damaged one is rebuilt, see `notice`.

        Raises NewerLibrary.
        """
        self._folder = folder
        self._copying = Lock()  # one copy at a time, and none while a document is deleted from the copies
        with disk_full_as_store_full(f"open {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            clean_up(folder)
            damage = find_damage(folder)
            self.notice = rebuild(folder, damage) if damage else ""  # what was damaged, for the user
            self._connection = connect(folder / FILE_NAME)
            if has_tables(self._connection) and is_outdated(self._connection):
                make_copy(folder)
            migrate(self._connection)
            self.bm25 = BM25Index(self._connection)
        make_copy(folder)

    def documents(self) -> list[Document]:
        """Return complete documents, newest first."""
        query = f"{DOCUMENT} ORDER BY added_at DESC, rowid DESC"
        return [_document(row) for row in self._connection.execute(query)]

    def document(self, document_id: str) -> Document:
        """Return a complete document. Raises NoSuchDocument."""
        row = self._connection.execute(f"{DOCUMENT} AND id = ?", (document_id,)).fetchone()
        if row is None:
            raise NoSuchDocument("This document is not in the library.")
        return _document(row)

    def chunks(self, document_id: str, limit: int = -1) -> list[Chunk]:
        """Return a complete document's chunks in reading order: all, or the first `limit`."""
        rows = self._connection.execute(f"{CHUNK} AND document_id = ? ORDER BY number LIMIT ?", (document_id, limit))
        return [Chunk(*row) for row in rows]

    def chunks_by_id(self, ids: Sequence[str]) -> dict[str, Chunk]:
        """Return the chunks of complete documents among these ids, by id."""
        query = f"{CHUNK} AND chunks.id IN (SELECT value FROM json_each(?))"
        return {row[0]: Chunk(*row) for row in self._connection.execute(query, (json.dumps(list(ids)),))}

    def owner(self, document_id: str) -> str:
        """Return the owner of a complete document's vectors. Raises NoSuchDocument."""
        self.document(document_id)
        return self.owners([document_id])[0]

    def owners(self, scope: Sequence[str]) -> list[str]:
        """Return the owners of the complete documents in a scope, see `Document.is_in`."""
        owners = dict(self._connection.execute(f"SELECT id, {OWNER} FROM documents WHERE NOT pending"))
        if not scope:
            return list(owners.values())
        return [owners[document.id] for document in self.documents() if document.is_in(scope)]

    def parsed(self, document_id: str) -> ParsedDocument:
        """Return a document as it was parsed, up to the end of its last chunk. Raises NoSuchDocument."""
        document = self.document(document_id)
        query = "SELECT start, text, gap, page FROM chunks WHERE document_id = ? ORDER BY number"
        rows = self._connection.execute(query, (document_id,)).fetchall()
        text = join_chunks((start, text, gap) for start, text, gap, _ in rows)
        query = "SELECT page_starts FROM documents WHERE id = ?"
        (page_starts,) = self._connection.execute(query, (document_id,)).fetchone()
        if page_starts is not None:
            return ParsedDocument(text, tuple(json.loads(page_starts)))
        pages = [(start, page) for start, _, _, page in rows]
        return ParsedDocument(text, estimate_page_starts(document.num_pages, pages, len(text)))

    def import_from(self, source: Path, limits: Limits = DEFAULT_LIMITS) -> ImportResult:
        """Add the documents of an export; the library computes their vectors.

        Raises ImportFailed, LibraryFull and StoreFull.
        """
        return import_library(self._folder.parent, source, self._connection, limits)

    def export_document(self, document_id: str, original: bytes | None = None) -> bytes:
        """Return an export of one complete document. Raises NoSuchDocument, ExportFailed and StoreFull."""
        self.document(document_id)
        return export_document(self._folder.parent, document_id, original)

    def pending_owners(self) -> list[str]:
        """Return the owners of incomplete vectors: of half-added, half-deleted or replaced documents."""
        return [row[0] for row in self._connection.execute(f"SELECT {OWNER} FROM documents WHERE pending")]

    def segment_counts(self, document_id: str = "") -> dict[str, tuple[str, int]]:
        """Return the owner and the number of vectors that each complete document, or one, should have, by its id."""
        query = f"SELECT id, {OWNER}, passages FROM documents WHERE NOT pending"
        rows = self._connection.execute(*((f"{query} AND id = ?", (document_id,)) if document_id else (query,)))
        return {document_id: (owner, count) for document_id, owner, count in rows}

    def restore(self, document_ids: Iterable[str]) -> str:
        """Restore documents that the database has lost from its copies; return what happened, for the user."""
        with disk_full_as_store_full("restore documents"):
            return restore(self._connection, self._folder, document_ids)

    def insert_pending(self, document: Document) -> Document:
        """Insert a pending document; return it with a unique name."""
        with self._transaction("index a document"):
            document = replace(document, name=unique_name(document.name, self._names()))
            self._connection.execute(
                "INSERT INTO documents (id, name, size_bytes, pages, chunks, added_at, passages, pending) "
                "VALUES (:id, :name, :size_bytes, :num_pages, 0, :added_at, 0, 1)",
                asdict(document),
            )
        return document

    def insert_pending_rechunk(self, document_id: str) -> str:
        """Insert a pending version of a complete document; return its owner. Raises NoSuchDocument."""
        _, _, generation = self.owner(document_id).partition(".")
        owner = f"{document_id}.{int(generation or 0) + 1}"
        self.insert_pending(Document(owner, "", 0, None, 0, 0.0))
        return owner

    def complete(
        self, document: Document, owner: str, chunks: Sequence[Chunk], parsed: ParsedDocument, num_segments: int
    ) -> Document:
        """List a pending document, or replace a complete one by the pending version of this owner; return it.

        Raises NoSuchDocument, with nothing changed, if the document was deleted in the meantime.
        """
        with self._transaction("index a document"):
            if owner != document.id:
                old_owner = self.owner(document.id)
                self._connection.execute("UPDATE documents SET owner = ? WHERE id = ?", (old_owner, owner))
                self._delete_chunks(document.id)
            self._insert_chunks(chunks, parsed.text)
            values = {"owner": owner, "segments": num_segments, "page_starts": json.dumps(parsed.page_starts)}
            self._connection.execute(
                "UPDATE documents SET pending = 0, owner = :owner, chunks = :num_chunks, passages = :segments, "
                "page_starts = :page_starts, chunk_tokens = :chunk_tokens, chunk_overlap = :chunk_overlap, "
                "warning = :warning, parser_version = :parser_version, language = :language WHERE id = :id",
                asdict(replace(document, num_chunks=len(chunks))) | values,
            )
            seal(self._connection, document.id)
        self._empty_log()
        return self.document(document.id)

    def copy_if_due(self) -> None:
        """Copy the database if the newest copy is old; the database can be used meanwhile."""
        with self._copying:
            if is_copy_due(self._folder):
                make_copy(self._folder)

    def rename(self, document_id: str, name: str) -> Document:
        with self._transaction("rename a document"):
            document = self.document(document_id)
            name = unique_name(name, self._names(exclude=document_id))
            self._connection.execute("UPDATE documents SET name = ? WHERE id = ?", (name, document_id))
            seal(self._connection, document_id)
        return replace(document, name=name)

    def set_collections(self, collections: Mapping[str, Set[str]]) -> None:
        """Set the collections of complete documents, given by id; ids that do not exist are ignored."""
        rows = [(json.dumps(sorted(names, key=str.casefold)), each) for each, names in collections.items()]
        with self._transaction("change a collection"):
            self._connection.executemany("UPDATE documents SET collections = ? WHERE id = ? AND NOT pending", rows)

    def set_segment_count(self, document_id: str, num_segments: int) -> None:
        with self._transaction("rebuild the vectors"):
            self._connection.execute("UPDATE documents SET passages = ? WHERE id = ?", (num_segments, document_id))

    def hide(self, document_id: str) -> None:
        """Make a document pending, and delete its chunks and terms."""
        with self._transaction("delete a document"):
            query = "UPDATE documents SET pending = ?, warning = '' WHERE id = ?"
            self._connection.execute(query, (DELETED, document_id))
            self._delete_chunks(document_id)

    def delete_pending(self, owner: str) -> None:
        """Delete a pending document's row; of one that was complete, the text is erased, also from the copies."""
        query = f"SELECT 1 FROM documents WHERE pending = ? AND {OWNER} = ?"
        was_complete = self._connection.execute(query, (DELETED, owner)).fetchone() is not None
        if was_complete:
            with self._copying:
                forget(self._folder, owner.partition(".")[0])
        with self._transaction("delete a document"):
            if was_complete:  # the lexical index keeps the words of deleted chunks until it is merged
                self._connection.execute("INSERT INTO words (words) VALUES ('optimize')")
            self._connection.execute(f"DELETE FROM documents WHERE pending AND {OWNER} = ?", (owner,))
        self._empty_log()

    @property
    def num_changes(self) -> int:
        """The number of rows that were changed since the catalog was opened."""
        return self._connection.total_changes

    def close(self) -> None:
        """Copy the database if it has changed, and close it."""
        with self._copying:
            make_copy(self._folder)
        self._connection.close()

    def _empty_log(self) -> None:
        """Move the log's content into the database: it holds deleted text, and damage to it loses what follows.

        While an export reads the database, or on a full disk, this is left to the next change.
        """
        self._connection.execute("PRAGMA busy_timeout = 0")
        with suppress(sqlite3.OperationalError):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")

    @contextmanager
    def _transaction(self, action: str) -> Iterator[None]:
        with disk_full_as_store_full(action), self._connection:
            yield

    def _names(self, exclude: str = "") -> set[str]:
        return {name for (name,) in self._connection.execute("SELECT name FROM documents WHERE id != ?", (exclude,))}

    def _insert_chunks(self, chunks: Sequence[Chunk], text: str) -> None:
        rows = []
        for chunk, gap in zip(chunks, gaps_before(text, chunks), strict=True):
            cursor = self._connection.execute(
                "INSERT INTO chunks (id, document_id, number, page, start, end, text, context, gap) "
                "VALUES (:id, :document_id, :index, :page, :start, :end, :text, :context, :gap)",
                asdict(chunk) | {"gap": gap},
            )
            rows.append((cursor.lastrowid or 0, chunk.id, chunk.passage))
        self.bm25.add(rows)

    def _delete_chunks(self, document_id: str) -> None:
        rows = self._connection.execute("SELECT row FROM chunks WHERE document_id = ?", (document_id,))
        self.bm25.delete([row for (row,) in rows])
        self._connection.execute("DELETE FROM chunks WHERE document_id = ?", (document_id,))


def _document(row: tuple[Any, ...]) -> Document:
    """Return a row of DOCUMENT; collections that cannot be read are none: no checksum protects them."""
    *values, collections = row
    document = Document(*values)
    if collections != "[]":
        with suppress(ValidationError):
            return replace(document, collections=_NAMES.validate_json(collections))
    return document
