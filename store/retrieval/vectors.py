"""The vectors of embedding segments: stored in a Chroma collection, searched exactly in memory.

All vectors can be recomputed from the catalog's text, so a damaged index is deleted. The collection stores the
embedder's fingerprint; the library embeds the documents whose vectors are missing.
"""

import errno
import logging
import secrets
import shutil
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import chromadb
import httpx
import numpy as np
from chromadb.api.client import Client
from chromadb.api.collection_configuration import CreateHNSWConfiguration
from chromadb.api.shared_system_client import SharedSystemClient
from chromadb.config import Settings
from chromadb.errors import ChromaError, NotFoundError

from store.atomic import write_atomic
from store.disk_full import disk_full_as_store_full, is_disk_full
from store.errors import VectorsUnavailable

COLLECTION = "passages"
MIN_FREE_BYTES = 16 * 2**20  # with less free space, any Chroma error counts as a full disk
MAX_BATCH = 5000  # vectors; Chroma rejects more than 5461
MAX_NORM_ERROR = 0.01  # of vectors of length 1; more is damage
SERVER_TIMEOUT_S = 5.0
COLLECTION_FILE = "vectors.collection"
PLACE_FILE = "vectors.place"  # where the vectors were when all were last compared with the documents
OPENING = "vectors.opening"  # counts openings that ended the process: while Chroma opens the folder, it exists
MAX_FAILED_OPENINGS = 2  # a kill may be one
log = logging.getLogger("kvscope")
MINIMAL_HNSW = CreateHNSWConfiguration(space="cosine", ef_construction=10, max_neighbors=4)  # never searched


class CollectionLost(VectorsUnavailable):
    """A Chroma server has lost all vectors while it ran."""


class _Block(NamedTuple):
    chunks: list[str]  # ids of chunks, whose segments stand one after another
    starts: np.ndarray  # [chunks], each chunk's first row in `vectors`
    vectors: np.ndarray  # [segments, D], float32, each row of length 1


class ExactIndex:
    """Embedding segments by owner, in memory: one matrix product per document compares all of them. Not thread-safe.

    An approximate graph (HNSW) reads fewer vectors. But where many segments repeat each other, as in forms and logs, it
    falls apart into components, and the nearest segment may be unreachable (docs/log.md has figures). A personal
    library has some ten thousand segments; comparing all of them takes milliseconds.
    """

    def __init__(self) -> None:
        self._blocks: dict[str, list[_Block]] = {}

    def add(self, owner: str, chunk_ids: Sequence[str], vectors: np.ndarray) -> None:
        """Add segments: row i of `vectors` [n, D] belongs to chunk_ids[i]. One call adds all segments of a chunk."""
        if not chunk_ids:
            return
        ids = np.array(chunk_ids)
        order = np.argsort(ids, kind="stable")
        chunks, starts = np.unique(ids[order], return_index=True)
        block = _Block(chunks.tolist(), starts, np.asarray(vectors[order], np.float32))
        self._blocks.setdefault(owner, []).append(block)

    def delete(self, owner: str) -> None:
        self._blocks.pop(owner, None)

    def segment_counts(self) -> dict[str, int]:
        """Return the number of segments of each owner that has any."""
        return {owner: self.num_segments(owner) for owner in self._blocks}

    def num_segments(self, owner: str) -> int:
        return sum(len(block.vectors) for block in self._blocks.get(owner, ()))

    def cosines(self, vector: np.ndarray, owners: Iterable[str]) -> dict[str, float]:
        """Return the cosine of each chunk's best segment with `vector` [D], by chunk id."""
        cosines: dict[str, float] = {}
        for owner in owners:
            for block in self._blocks.get(owner, ()):
                best = np.maximum.reduceat(block.vectors @ vector, block.starts)
                cosines |= zip(block.chunks, best.clip(-1, 1).tolist(), strict=True)
        return cosines


class VectorIndex(ExactIndex):
    """An index in a folder or on a Chroma server, for one process. Methods that write raise StoreFull.

    A server such as http://10.0.0.5:8000 may have the indexes of several libraries: each has a collection, whose name
    is in a file beside `folder`.
    """

    def __init__(self, folder: Path, server: str = "") -> None:
        super().__init__()
        self._folder, self._server = folder, server
        self._failed = defaultdict[str, list[str]](list)  # by owner: what Chroma may have logged, and apply later
        if server:
            with self._writing("open the vectors"):
                self._open()
            self._fingerprint = self.fingerprint
            return
        marker = folder.with_name(OPENING)
        with self._writing(f"open {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            if not is_usable(folder):
                self._reset()
            marker.write_text(str(_failed_openings(folder) + 1))
            try:
                self._open()
            except BaseException as error:
                if not _is_damage(error):
                    raise
                log.warning("the vectors are damaged and will be computed again: %s", error)
                self._reset()
                self._open()
            finally:
                marker.unlink(missing_ok=True)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the embedder of all vectors; empty for a new index."""
        return (self._collection.metadata or {}).get("fingerprint", "")

    def __len__(self) -> int:
        return self._collection.count()

    @property
    def was_used_last(self) -> bool:
        """Whether the vectors were here before, as far as is known, and not in the folder or on another server.

        If not, documents may have been deleted meanwhile whose vectors are still here.
        """
        try:
            return self._folder.with_name(PLACE_FILE).read_text(encoding="utf-8") == self._server
        except (OSError, ValueError):
            return True

    def mark_used(self) -> None:
        """Remember that the vectors are here now; those of documents that do not exist must be deleted before."""
        file = self._folder.with_name(PLACE_FILE)
        with self._writing("save the vectors"):
            if not self.was_used_last or (self._server and not file.exists()):
                write_atomic(file, self._server.encode())

    def clear(self) -> None:
        """Delete all vectors and the fingerprint."""
        with self._writing("rebuild the vectors"):
            self._client.delete_collection(self._collection_name())
            self._collection = self._open_collection()
            self._blocks.clear()

    def set_fingerprint(self, fingerprint: str) -> None:
        """Record the embedder of all vectors."""
        self._fingerprint = fingerprint
        with self._writing("save the vectors"):
            self._collection.modify(metadata={"fingerprint": fingerprint})

    def add(self, owner: str, chunk_ids: Sequence[str], vectors: np.ndarray) -> None:
        try:
            self._save(owner, chunk_ids, vectors)
        except CollectionLost:
            self._save_again()
            self._save(owner, chunk_ids, vectors)
        super().add(owner, chunk_ids, vectors)

    def _save(self, owner: str, chunk_ids: Sequence[str], vectors: np.ndarray) -> None:
        num_segments = Counter[str]()
        ids = []
        for chunk in chunk_ids:
            ids.append(f"{chunk}-{num_segments[chunk]}")
            num_segments[chunk] += 1
        with self._writing("save the vectors"):
            for start in range(0, len(ids), MAX_BATCH):
                batch = slice(start, start + MAX_BATCH)
                metadatas: Any = [{"document": owner, "chunk": chunk} for chunk in chunk_ids[batch]]
                try:
                    self._collection.add(ids=ids[batch], embeddings=vectors[batch], metadatas=metadatas)
                except ChromaError:
                    self._failed[owner] += ids[batch]
                    raise
            _clear_unsaved_rows(self._folder)

    def _save_again(self) -> None:
        """Save all vectors to a server that has lost them while it ran."""
        log.warning("Chroma at %s has lost the vectors; they are saved again", self._server)
        with self._writing("save the vectors"):
            self._collection = self._open_collection()
        self.set_fingerprint(self._fingerprint)
        for owner, blocks in self._blocks.items():
            for block in blocks:
                ends = [*block.starts[1:].tolist(), len(block.vectors)]
                counts = [end - start for start, end in zip(block.starts.tolist(), ends, strict=True)]
                ids = [chunk for chunk, count in zip(block.chunks, counts, strict=True) for _ in range(count)]
                self._save(owner, ids, block.vectors)

    def delete(self, owner: str) -> None:
        with suppress(CollectionLost), self._writing("delete the vectors"):
            self._collection.delete(where={"document": owner})
            if owner in self._failed:  # no filter finds them until they are applied
                self._collection.delete(ids=self._failed[owner])
        self._failed.pop(owner, None)
        super().delete(owner)

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _writing(self, action: str) -> Iterator[None]:
        """Raise StoreFull on a full disk, also when Chroma reports it as another error, and for a server's errors."""
        with disk_full_as_store_full(action):
            try:
                yield
            except (ChromaError, httpx.HTTPError, ValueError) as error:
                if isinstance(error, NotFoundError):
                    raise CollectionLost(
                        f"Chroma at {self._server} cannot {action}: it has lost the vectors."
                    ) from error
                if self._server:
                    reason = str(error).strip() or type(error).__name__
                    raise VectorsUnavailable(f"Chroma at {self._server} cannot {action} ({reason}).") from error
                if shutil.disk_usage(self._folder).free < MIN_FREE_BYTES:
                    raise OSError(errno.ENOSPC, str(error)) from error
                raise

    def _open(self) -> None:
        settings = Settings(anonymized_telemetry=False)
        if self._server:
            self._client = cast(Client, chromadb.HttpClient(*_host_and_port(self._server), settings=settings))
            transport: Any = self._client._server
            transport._session.timeout = SERVER_TIMEOUT_S  # there is no setting for it; the default is to wait for ever
        else:
            self._client = cast(Client, chromadb.PersistentClient(str(self._folder), settings=settings))
        self._collection = self._open_collection()
        self._load()
        _clear_unsaved_rows(self._folder)

    def _reset(self) -> None:
        """Delete the folder's files; without this, Chroma does not open a folder again in the same process."""
        SharedSystemClient.clear_system_cache()
        shutil.rmtree(self._folder)
        self._folder.mkdir()
        self._blocks.clear()

    def _open_collection(self) -> chromadb.Collection:
        return self._client.get_or_create_collection(
            self._collection_name(), embedding_function=None, configuration={"hnsw": MINIMAL_HNSW}
        )

    def _collection_name(self) -> str:
        if not self._server:
            return COLLECTION
        file = self._folder.with_name(COLLECTION_FILE)
        if not file.exists():
            write_atomic(file, f"kvscope-{secrets.token_hex(8)}".encode())
        return file.read_text()

    def _load(self) -> None:
        """Read all vectors; 20,000 take about a second."""
        by_owner = defaultdict[str, list[tuple[str, np.ndarray]]](list)
        for start in range(0, len(self), MAX_BATCH):
            rows: Any = self._collection.get(limit=MAX_BATCH, offset=start, include=["metadatas", "embeddings"])
            norms = np.linalg.norm(np.asarray(rows["embeddings"], np.float32), axis=1)
            if not (np.abs(norms - 1) < MAX_NORM_ERROR).all():
                if self._server:
                    log.warning("the vectors on %s are damaged and will be computed again", self._server)
                    return self.clear()
                raise ValueError("a vector has another length than 1")
            for metadata, vector in zip(rows["metadatas"], rows["embeddings"], strict=True):
                by_owner[metadata["document"]].append((metadata["chunk"], vector.astype(np.float32)))
        for owner, segments in by_owner.items():
            super().add(owner, [chunk for chunk, _ in segments], np.stack([vector for _, vector in segments]))


def _host_and_port(server: str) -> tuple[str, int, bool]:
    """Return the host and port of a URL, and whether it is of TLS."""
    parts = urlsplit(server)
    is_tls = parts.scheme == "https"
    return parts.hostname or "", parts.port or (443 if is_tls else 80), is_tls


def is_usable(folder: Path) -> bool:
    """Return whether an index that is not open can be read, and opening it has not ended the process repeatedly."""
    return _failed_openings(folder) < MAX_FAILED_OPENINGS and _is_sound(folder)


def _failed_openings(folder: Path) -> int:
    """Return how often in succession opening an index has ended the process."""
    try:
        return int(folder.with_name(OPENING).read_text())
    except (OSError, ValueError):
        return 0


def _is_sound(folder: Path) -> bool:
    path = folder / "chroma.sqlite3"
    if not path.exists():
        return not any(folder.iterdir())
    try:
        with closing(sqlite3.connect(path)) as database:
            return database.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
    except sqlite3.DatabaseError as error:
        if is_disk_full(error):
            raise
        return False


def _clear_unsaved_rows(folder: Path) -> None:
    """Overwrite the rows that Chroma writes before it saves the first vector, about the thousandth.

    They are uninitialized memory, in which there may be text of any document, also of one deleted since.
    """
    for rows in folder.glob("*/data_level0.bin"):
        if not rows.with_name("link_lists.bin").stat().st_size:
            with rows.open("r+b") as file:
                file.write(bytes(rows.stat().st_size))


def _is_damage(error: BaseException) -> bool:
    """Return whether an error while opening comes from the files; Rust's panics are no Exceptions."""
    if isinstance(error, MemoryError | PermissionError) or "locked" in str(error):
        return False
    is_panic = type(error).__name__ == "PanicException"
    return is_panic or (isinstance(error, Exception) and not is_disk_full(error))
