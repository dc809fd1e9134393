"""Chunk KV on disk: one safetensors file a key, written whole or not at all, and checked before it is read.

A wrong tensor would be a wrong answer with no sign of it. So a small SQLite index keeps each blob's length and SHA-256,
and a note of its owner's; whatever does not match is dropped and counts as a miss. A file's name holds its checksum
too, so putting a key anew never touches the bytes that another thread is reading, and hashing needs no lock.
"""

import hashlib
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from store.atomic import replace_synced, write_synced
from store.disk_full import disk_full_as_store_full
from store.errors import StoreFull
from store.kv.index import BlobIndex, BlobRow

SUFFIX, DRAFT = ".safetensors", ".part"


class DiskBlobs:
    """A BlobStore for any number of threads and one process. Opening makes folder and index agree.

    root  created if it is not there; holds nothing else
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()  # around the index and names of files, never around their bytes
        with disk_full_as_store_full(f"use {root}"):
            root.mkdir(parents=True, exist_ok=True)
            self._index = BlobIndex(root / "index.sqlite3")
            self._reconcile()

    def put(self, key: str, tensors: dict[str, Tensor], note: str = "") -> None:
        """Write all tensors and the note, or nothing, in place of what the key held.

        Raises StoreFull, with every earlier blob untouched, and ValueError if the key is no hex digest.
        """
        _check(key)
        data = save({name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()})
        row = BlobRow(key, len(data), hashlib.sha256(data).hexdigest(), note)
        draft = self._root / f"{key}-{uuid4().hex}{DRAFT}"
        with disk_full_as_store_full("keep computed chunks"):
            try:
                write_synced(draft, data)
                with self._lock:
                    self._replace(row, draft)
            finally:
                draft.unlink(missing_ok=True)

    def get(self, key: str) -> dict[str, Tensor]:
        """Return the tensors bit for bit, on the CPU. Raises KeyError if absent, torn or altered."""
        _check(key)
        with self._lock:
            row = self._index.row(key)
        if row is None:
            raise KeyError(key)
        try:
            data = self._path(row).read_bytes()
            if len(data) == row.size_bytes and hashlib.sha256(data).hexdigest() == row.sha256:
                return load(data)
        except (OSError, SafetensorError):
            pass
        self._drop(row)
        raise KeyError(key)

    def __contains__(self, key: str) -> bool:
        """Return whether `get` may find the key; only `get` knows whether its bytes are whole."""
        _check(key)
        with self._lock:
            return self._index.row(key) is not None

    def delete(self, key: str) -> None:
        """Forget a key; nothing happens if it is not there."""
        _check(key)
        with self._lock:
            row = self._index.row(key)
        if row is not None:
            self._drop(row)

    def notes(self) -> dict[str, str]:
        """Return every key with its note."""
        with self._lock:
            return {row.key: row.note for row in self._index.rows()}

    def annotate(self, notes: dict[str, str]) -> None:
        """Put other notes to blobs that are there, all or none. Raises StoreFull."""
        with self._lock, disk_full_as_store_full("keep notes about computed chunks"):
            self._index.annotate(notes)

    @property
    def size_bytes(self) -> int:
        """Bytes of all blobs on disk."""
        with self._lock:
            return self._index.size_bytes

    def close(self) -> None:
        """Close the index."""
        with self._lock:
            self._index.close()

    def _replace(self, row: BlobRow, draft: Path) -> None:
        old = self._index.row(row.key)
        replace_synced(draft, self._path(row))
        replaced = old is not None and self._path(old) != self._path(row)
        try:
            self._index.put(row)
        except BaseException:
            if old is None or replaced:
                self._path(row).unlink(missing_ok=True)
            raise
        if old is not None and replaced:
            self._path(old).unlink(missing_ok=True)

    def _drop(self, row: BlobRow) -> None:
        """Forget this very blob; one that was put under the key meanwhile stays.

        The file goes first: where the index takes no change, a row without its file is a miss all the same.
        """
        with self._lock:
            if self._index.row(row.key) == row:
                with suppress(OSError):
                    self._path(row).unlink()
            with suppress(StoreFull), disk_full_as_store_full("drop a blob"):
                self._index.delete(row)

    def _reconcile(self) -> None:
        rows = {self._path(row): row for row in self._index.rows()}
        for path in self._root.iterdir():
            if path.suffix in (SUFFIX, DRAFT) and path not in rows:
                path.unlink()
        for path, row in rows.items():
            if not path.is_file() or path.stat().st_size != row.size_bytes:
                self._index.delete(row)
                path.unlink(missing_ok=True)

    def _path(self, row: BlobRow) -> Path:
        return self._root / f"{row.key}-{row.sha256[:16]}{SUFFIX}"


def remove_all(root: Path) -> tuple[int, int]:
    """Remove a folder of blobs that nobody has open; return the bytes that went, and those that could not."""

    def size_bytes() -> int:
        return sum(path.stat().st_size for path in root.glob("*") if path.is_file())

    before = size_bytes()
    shutil.rmtree(root, ignore_errors=True)
    left = size_bytes()
    return before - left, left


def _check(key: str) -> None:
    if not 1 <= len(key) <= 128 or set(key) - set("0123456789abcdef"):
        raise ValueError(f"a blob key is a lower-case hex digest of at most 128 digits, got {key!r}")
