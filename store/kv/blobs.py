"""Chunk KV on disk: one safetensors file per key, written atomically and verified when read.

A wrong tensor would silently give a wrong answer. A SQLite index therefore stores the length and SHA-256 of each
blob, and a file that does not match is deleted and counts as a miss. The file name contains the checksum, so replacing
a key never overwrites bytes that another thread is reading, and hashing needs no lock. An index that is damaged or of
another version is recreated empty, and its blobs are lost: this is a cache.
"""

import hashlib
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from uuid import uuid4

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from store.atomic import replace_synced, write_synced
from store.disk_full import disk_full_as_store_full, is_disk_full
from store.errors import KVIndexDamaged, StoreFull

SUFFIX = ".safetensors"
DRAFT_SUFFIX = ".part"
SCHEMA = """CREATE TABLE IF NOT EXISTS blobs
(key TEXT PRIMARY KEY, size_bytes INTEGER NOT NULL, sha256 TEXT NOT NULL, note TEXT NOT NULL)"""
SELECT = "SELECT key, size_bytes, sha256, note FROM blobs"


@dataclass(frozen=True, slots=True)
class _Blob:
    key: str
    size_bytes: int  # of the file
    sha256: str  # of the file, hex
    note: str


class DiskBlobs:
    """A thread-safe BlobStore in a folder of its own, for one process. Opening reconciles folder and index."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()  # guards the index and the file names, not the files' content
        with disk_full_as_store_full(f"use {root}"):
            root.mkdir(parents=True, exist_ok=True)
            self.index = _open_index(root / "index.sqlite3")
            self._reconcile()

    def put(self, key: str, tensors: dict[str, Tensor], note: str = "") -> None:
        if not 1 <= len(key) <= 128 or set(key) - set("0123456789abcdef"):
            raise ValueError(f"a blob key is a lower-case hex digest of at most 128 digits, got {key!r}")
        data = save({name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()})
        blob = _Blob(key, len(data), hashlib.sha256(data).hexdigest(), note)
        draft = self._root / f"{key}-{uuid4().hex}{DRAFT_SUFFIX}"
        with _writing("save chunk KV"):
            try:
                write_synced(draft, data)
                with self._lock:
                    self._publish(blob, draft)
            finally:
                draft.unlink(missing_ok=True)

    def get(self, key: str) -> dict[str, Tensor]:
        with self._lock:
            blob = self._find(key)
        if blob is None:
            raise KeyError(key)
        with suppress(OSError, SafetensorError):
            data = self._path(blob).read_bytes()
            if len(data) == blob.size_bytes and hashlib.sha256(data).hexdigest() == blob.sha256:
                return load(data)
        self._drop(blob)
        raise KeyError(key)

    def delete(self, key: str) -> None:
        with self._lock:
            blob = self._find(key)
        if blob is not None:
            self._drop(blob)

    def notes(self) -> dict[str, str]:
        with self._lock:
            return dict(self.index.execute("SELECT key, note FROM blobs"))

    def annotate(self, notes: dict[str, str]) -> None:
        rows = [(note, key) for key, note in notes.items()]
        with self._lock, _writing("save notes about chunk KV"), self.index:
            self.index.executemany("UPDATE blobs SET note = ? WHERE key = ?", rows)

    def close(self) -> None:
        with self._lock:
            self.index.close()

    def _find(self, key: str) -> _Blob | None:
        """Return a row of the index; None also if it cannot be read."""
        with suppress(sqlite3.DatabaseError):
            row = self.index.execute(f"{SELECT} WHERE key = ?", (key,)).fetchone()
            return _Blob(*row) if row else None
        return None

    def _path(self, blob: _Blob) -> Path:
        return self._root / f"{blob.key}-{blob.sha256[:16]}{SUFFIX}"

    def _publish(self, blob: _Blob, draft: Path) -> None:
        """Move a draft into place, then index it; an indexing error removes the new file."""
        old = self._find(blob.key)
        path = self._path(blob)
        old_path = self._path(old) if old else None
        replace_synced(draft, path)
        try:
            with self.index:
                self.index.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?, ?, ?)", astuple(blob))
        except BaseException:
            if path != old_path:
                path.unlink(missing_ok=True)
            raise
        if old_path and path != old_path:
            old_path.unlink(missing_ok=True)

    def _drop(self, blob: _Blob) -> None:
        """Delete this blob, but not one with other content put under the same key in the meantime."""
        with self._lock:
            current = self._find(blob.key)
            if current is not None and current.sha256 == blob.sha256:
                with suppress(OSError):
                    self._path(blob).unlink()  # first: if the index cannot be changed, this is a miss nevertheless
                with suppress(StoreFull), _writing("delete chunk KV"), self.index:
                    self.index.execute("DELETE FROM blobs WHERE key = ?", (blob.key,))

    def _reconcile(self) -> None:
        """Delete files without a row, and rows whose file is missing or has another length."""
        blobs = {self._path(blob): blob for blob in (_Blob(*row) for row in self.index.execute(SELECT))}
        for path in self._root.iterdir():
            if path.suffix in (SUFFIX, DRAFT_SUFFIX) and path not in blobs:
                path.unlink()
        for path, blob in blobs.items():
            if not path.is_file() or path.stat().st_size != blob.size_bytes:
                with self.index:
                    self.index.execute("DELETE FROM blobs WHERE key = ?", (blob.key,))
                path.unlink(missing_ok=True)


@contextmanager
def _writing(action: str) -> Iterator[None]:
    """Raise StoreFull for a full disk, and KVIndexDamaged for an index that was damaged after it was opened."""
    with disk_full_as_store_full(action):
        try:
            yield
        except sqlite3.DatabaseError as error:
            if is_disk_full(error):
                raise
            raise KVIndexDamaged(f"Cannot {action} ({error}).") from error


def check(root: Path, repair: bool) -> str:
    """Read all blobs of a folder that is not open; return what is wrong, as the end of a sentence.

    With `repair`, damaged files are deleted; opening the folder then drops their rows, or creates the index again.
    """
    path = root / "index.sqlite3"
    if not path.exists():
        return ""
    damaged = []
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as index:
            if index.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("malformed")
            for key, size_bytes, digest in index.execute("SELECT key, size_bytes, sha256 FROM blobs"):
                file = root / f"{key}-{digest[:16]}{SUFFIX}"
                if file.is_file() and (file.stat().st_size != size_bytes or _sha256(file) != digest):
                    damaged.append(file)
    except sqlite3.DatabaseError as error:
        if is_disk_full(error):
            raise
        damaged = list(root.glob("index.sqlite3*"))
        problem = "has a damaged index"
    else:
        problem = f"has {len(damaged)} damaged {'file' if len(damaged) == 1 else 'files'}" if damaged else ""
    if repair:
        for file in damaged:
            file.unlink(missing_ok=True)
    return problem


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_all(root: Path) -> tuple[int, int]:
    """Delete a folder of blobs that is not open; return the bytes deleted, and the bytes that could not be."""

    def size_bytes() -> int:
        return sum(path.stat().st_size for path in root.glob("*") if path.is_file())

    before = size_bytes()
    shutil.rmtree(root, ignore_errors=True)
    left = size_bytes()
    return before - left, left


def _open_index(path: Path) -> sqlite3.Connection:
    try:
        return _connect(path)
    except sqlite3.DatabaseError as error:
        if is_disk_full(error):
            raise
        for part in path.parent.glob(f"{path.name}*"):
            part.unlink()
        return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        connection.execute("PRAGMA secure_delete = ON")  # notes name documents
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # no fsync per change; a lost row is a miss
        connection.execute(SCHEMA)
        connection.execute(SELECT).fetchall()
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("the index of chunk KV is damaged")
    except BaseException:
        connection.close()
        raise
    return connection
