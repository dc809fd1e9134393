"""Keep the vectors of passages in a Chroma collection, and find chunks by them.

Everything here can be computed again from the catalogue's text. So the collection carries the fingerprint of the
embedder that filled it, written only when it is complete; one that does not match is emptied and filled anew.
Chroma allows one process per folder (`store.lock`), embeds nothing here, and reports nothing to anybody.
It keeps the vectors; they are searched in memory, all of them (`store.retrieval.exact_search` says why).
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
from chromadb.api.collection_configuration import CreateHNSWConfiguration
from chromadb.config import Settings
from chromadb.errors import ChromaError

from store.disk_full import disk_full_as_store_full, is_disk_full
from store.errors import StoreFull
from store.retrieval.exact_search import ExactIndex

COLLECTION = "passages"
MIN_FREE_BYTES = 16 * 2**20  # with less of it free, an unclear error of Chroma's means a full disk
MAX_BATCH = 5000  # Chroma refuses more than 5461 at once
MINIMAL_HNSW = CreateHNSWConfiguration(space="cosine", ef_construction=10, max_neighbors=4)  # never searched: soon built


class VectorIndex:
    """Passages by document and chunk. The caller takes care of threads.

    nearest  finds chunks among all that is here
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with self._writing(f"open {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            _drop_if_damaged(folder)
            settings = Settings(anonymized_telemetry=False)
            self._client = cast(Client, chromadb.PersistentClient(str(folder), settings=settings))
            self._collection = self._open_collection()
            self.exact = self._load_index()

    @property
    def fingerprint(self) -> str:
        """Of the embedder that filled it; empty if it is not complete."""
        return (self._collection.metadata or {}).get("fingerprint", "")

    def __len__(self) -> int:
        return self._collection.count()

    def clear(self) -> None:
        """Drop everything; the fingerprint is empty until `seal`."""
        with self._writing("rebuild the vectors"):
            self._client.delete_collection(COLLECTION)
            self._collection, self.exact = self._open_collection(), ExactIndex()

    def mark_complete(self, fingerprint: str) -> None:
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
        self.exact.add(document_id, chunk_ids, vectors)

    def delete(self, document_id: str) -> None:
        """Forget all passages of a document. Raises StoreFull."""
        with self._writing("delete the vectors"):
            self._collection.delete(where={"document": document_id})
        self.exact.delete(document_id)

    def close(self) -> None:
        """Let go of the folder."""
        self._client.close()

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        """Also call it full when Chroma says something else while the disk has no room: it often does."""
        with disk_full_as_store_full(what):
            try:
                yield
            except ChromaError as error:
                if shutil.disk_usage(self._folder).free < MIN_FREE_BYTES:
                    raise StoreFull(f"There is no room to {what} ({error}).") from error
                raise

    def _open_collection(self) -> chromadb.Collection:
        return self._client.get_or_create_collection(COLLECTION, embedding_function=None, configuration={"hnsw": MINIMAL_HNSW})

    def _load_index(self) -> ExactIndex:
        """Read every vector: about a second for 20,000 passages."""
        held: dict[str, tuple[list[str], list[np.ndarray]]] = {}
        for piece in _batches(len(self)):
            found: Any = self._collection.get(limit=MAX_BATCH, offset=piece.start, include=["metadatas", "embeddings"])
            for metadata, vector in zip(found["metadatas"], found["embeddings"], strict=True):
                chunks, vectors = held.setdefault(str(metadata["document"]), ([], []))
                chunks.append(str(metadata["chunk"]))
                vectors.append(vector.astype(np.float32))
        nearest = ExactIndex()
        for document, (chunks, vectors) in held.items():
            nearest.add(document, chunks, np.stack(vectors))
        return nearest


def _drop_if_damaged(folder: Path) -> None:
    """Look before Chroma does: once it has failed to open a folder, it cannot open it again in this process."""
    try:
        with closing(sqlite3.connect(folder / "chroma.sqlite3")) as database:
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        if is_disk_full(error):
            raise
        shutil.rmtree(folder)
        folder.mkdir()


def _batches(length: int) -> Iterator[slice]:
    return (slice(start, start + MAX_BATCH) for start in range(0, length, MAX_BATCH))
