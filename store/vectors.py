"""Find chunks by meaning: the vectors of their passages in a Chroma collection, compared by cosine.

Everything here can be computed again from the catalogue's text. So the collection carries the fingerprint of the
embedder that filled it, written only when it is complete; one that does not match is emptied and filled anew.
Chroma allows one process per folder (`store.lock`), embeds nothing here, and reports nothing to anybody.
"""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import chromadb
import numpy as np
from chromadb.api.client import Client
from chromadb.config import Settings
from chromadb.errors import ChromaError

from store.errors import StoreFull
from store.room import full_becomes_store_full, is_full

NAME = "passages"
LEAST_ROOM_BYTES = 16 * 2**20  # with less of it free, an unclear error of Chroma's means a full disk
BATCH = 5000  # Chroma refuses more than 5461 at once
CLOSEST_PASSAGES = 4  # looked at per chunk wanted: a chunk has about three, and one is enough


class VectorIndex:
    """Passages by document and chunk. The caller takes care of threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with self._writing(f"open {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            _drop_if_damaged(folder)
            settings = Settings(anonymized_telemetry=False)
            self._client = cast(Client, chromadb.PersistentClient(str(folder), settings=settings))
            self._collection = self._opened()

    @property
    def fingerprint(self) -> str:
        """Of the embedder that filled it; empty if it is not complete."""
        return (self._collection.metadata or {}).get("fingerprint", "")

    def __len__(self) -> int:
        return self._collection.count()

    def clear(self) -> None:
        """Drop everything; the fingerprint is empty until `seal`."""
        with self._writing("rebuild the vectors"):
            self._client.delete_collection(NAME)
            self._collection = self._opened()

    def seal(self, fingerprint: str) -> None:
        """Declare that every passage of every document is here, embedded by this embedder."""
        with self._writing("keep the vectors"):
            self._collection.modify(metadata={"fingerprint": fingerprint})

    def add(self, document_id: str, chunk_ids: Sequence[str], vectors: np.ndarray) -> None:
        """Add passages of one document: row i of `vectors` [n, D] belongs to chunk_ids[i], which may repeat.

        All passages of a chunk come in one call. Raises StoreFull.
        """
        seen: dict[str, int] = {}
        ids = []
        for chunk in chunk_ids:
            seen[chunk] = seen.get(chunk, -1) + 1
            ids.append(f"{chunk}-{seen[chunk]}")
        with self._writing("keep the vectors"):
            for piece in _batches(len(ids)):
                self._collection.add(
                    ids=ids[piece],
                    embeddings=vectors[piece],
                    metadatas=[{"document": document_id, "chunk": chunk} for chunk in chunk_ids[piece]],
                )

    def delete(self, document_id: str) -> None:
        """Forget all passages of a document. Raises StoreFull."""
        with self._writing("delete the vectors"):
            self._collection.delete(where={"document": document_id})

    def search(
        self, vector: np.ndarray, top: int, hidden: Sequence[str] = (), documents: Sequence[str] = ()
    ) -> list[tuple[str, float]]:
        """Return at most `top` (chunk id, cosine) by each chunk's best passage, best first, equal ones by id.

        vector     [D], of length 1
        hidden     ids of documents that must not be found
        documents  ids of the documents to look in; none for all
        """
        wanted = min(len(self), top * CLOSEST_PASSAGES)
        if not wanted:
            return []
        found: Any = self._collection.query(
            query_embeddings=vector[None],
            n_results=wanted,
            where=_where(hidden, documents),
            include=["metadatas", "distances"],
        )
        best: dict[str, float] = {}
        for metadata, distance in zip(found["metadatas"][0], found["distances"][0], strict=True):
            chunk = str(metadata["chunk"])
            best[chunk] = max(best.get(chunk, -1.0), float(np.clip(1 - distance, -1, 1)))
        return sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:top]

    def close(self) -> None:
        """Let go of the folder."""
        self._client.close()

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        """Also call it full when Chroma says something else while the disk has no room: it often does."""
        with full_becomes_store_full(what):
            try:
                yield
            except ChromaError as error:
                if shutil.disk_usage(self._folder).free < LEAST_ROOM_BYTES:
                    raise StoreFull(f"There is no room to {what} ({error}).") from error
                raise

    def _opened(self) -> chromadb.Collection:
        return self._client.get_or_create_collection(
            NAME, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )


def _where(hidden: Sequence[str], documents: Sequence[str]) -> Any:
    """Return Chroma's condition on a passage's document; None where any will do."""
    conditions = [
        {"document": {operator: list(ids)}} for operator, ids in (("$nin", hidden), ("$in", documents)) if ids
    ]
    return {"$and": conditions} if len(conditions) > 1 else next(iter(conditions), None)


def _drop_if_damaged(folder: Path) -> None:
    """Look before Chroma does: once it has failed to open a folder, it cannot open it again in this process."""
    try:
        with closing(sqlite3.connect(folder / "chroma.sqlite3")) as database:
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        if is_full(error):
            raise
        shutil.rmtree(folder)
        folder.mkdir()


def _batches(length: int) -> Iterator[slice]:
    return (slice(start, start + BATCH) for start in range(0, length, BATCH))
