"""The search index, persisted in a Chroma collection; `store.retrieval.exact_search` says why Chroma does not search.

All vectors can be recomputed from the catalog's text. The collection stores the embedder's fingerprint, written only
when the index is complete; on a mismatch the library rebuilds the index.
"""

import errno
import shutil
import sqlite3
from collections import Counter, defaultdict
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
from store.retrieval.exact_search import ExactIndex

COLLECTION = "passages"
MIN_FREE_BYTES = 16 * 2**20  # with less free space, any Chroma error counts as a full disk
MAX_BATCH = 5000  # vectors; Chroma rejects more than 5461
MINIMAL_HNSW = CreateHNSWConfiguration(space="cosine", ef_construction=10, max_neighbors=4)  # never searched


class VectorIndex(ExactIndex):
    """An index in a folder, for one process. Methods that write raise StoreFull."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        with self._writing(f"open {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            _delete_if_damaged(folder)
            settings = Settings(anonymized_telemetry=False)
            self._client = cast(Client, chromadb.PersistentClient(str(folder), settings=settings))
            self._collection = self._open_collection()
            self._load()

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the embedder; empty if the index is incomplete."""
        return (self._collection.metadata or {}).get("fingerprint", "")

    def __len__(self) -> int:
        return self._collection.count()

    def clear(self) -> None:
        """Delete all vectors and the fingerprint."""
        with self._writing("rebuild the vectors"):
            self._client.delete_collection(COLLECTION)
            self._collection = self._open_collection()
            self._blocks.clear()

    def mark_complete(self, fingerprint: str) -> None:
        """Record that every segment of every document is here, embedded by this embedder."""
        with self._writing("save the vectors"):
            self._collection.modify(metadata={"fingerprint": fingerprint})

    def add(self, owner: str, chunk_ids: Sequence[str], vectors: np.ndarray) -> None:
        num_segments = Counter[str]()
        ids = []
        for chunk in chunk_ids:
            ids.append(f"{chunk}-{num_segments[chunk]}")
            num_segments[chunk] += 1
        with self._writing("save the vectors"):
            for batch in _batches(len(ids)):
                self._collection.add(
                    ids=ids[batch],
                    embeddings=vectors[batch],
                    metadatas=[{"document": owner, "chunk": chunk} for chunk in chunk_ids[batch]],
                )
        super().add(owner, chunk_ids, vectors)

    def delete(self, owner: str) -> None:
        with self._writing("delete the vectors"):
            self._collection.delete(where={"document": owner})
        super().delete(owner)

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _writing(self, action: str) -> Iterator[None]:
        """Raise StoreFull on a full disk, also when Chroma reports it as another error."""
        with disk_full_as_store_full(action):
            try:
                yield
            except ChromaError as error:
                if shutil.disk_usage(self._folder).free < MIN_FREE_BYTES:
                    raise OSError(errno.ENOSPC, str(error)) from error
                raise

    def _open_collection(self) -> chromadb.Collection:
        return self._client.get_or_create_collection(
            COLLECTION, embedding_function=None, configuration={"hnsw": MINIMAL_HNSW}
        )

    def _load(self) -> None:
        """Read all vectors; 20,000 take about a second."""
        by_owner = defaultdict[str, list[tuple[str, np.ndarray]]](list)
        for batch in _batches(len(self)):
            rows: Any = self._collection.get(limit=MAX_BATCH, offset=batch.start, include=["metadatas", "embeddings"])
            for metadata, vector in zip(rows["metadatas"], rows["embeddings"], strict=True):
                by_owner[metadata["document"]].append((metadata["chunk"], vector.astype(np.float32)))
        for owner, segments in by_owner.items():
            super().add(owner, [chunk for chunk, _ in segments], np.stack([vector for _, vector in segments]))


def _delete_if_damaged(folder: Path) -> None:
    """Check the database before Chroma does: after a failed open, Chroma cannot open the folder in this process."""
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
