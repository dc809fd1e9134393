"""Chunk KV on disk: one safetensors file per key, written atomically and verified when read.

A wrong tensor would silently give a wrong answer. A SQLite index therefore stores the length and SHA-256 of each
blob, and its owner's note; a file that does not match is deleted and counts as a miss. The file name contains the
checksum, so replacing a key never overwrites bytes that another thread is reading, and hashing needs no lock.
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

SUFFIX = ".safetensors"
DRAFT_SUFFIX = ".part"


class DiskBlobs:
    """A thread-safe BlobStore for one process. Opening reconciles the folder with its index.

    root  used for nothing else; created if missing
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()  # guards the index and the file names, not the files' content
        with disk_full_as_store_full(f"use {root}"):
            root.mkdir(parents=True, exist_ok=True)
            self._index = BlobIndex(root / "index.sqlite3")
            self._reconcile()

    def put(self, key: str, tensors: dict[str, Tensor], note: str = "") -> None:
        """Write all tensors and the note, or nothing, replacing the key's previous content.

        Raises StoreFull, with every earlier blob unchanged, and ValueError if the key is not a hex digest.
        """
        _check_key(key)
        data = save({name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()})
        row = BlobRow(key, len(data), hashlib.sha256(data).hexdigest(), note)
        draft = self._root / f"{key}-{uuid4().hex}{DRAFT_SUFFIX}"
        with disk_full_as_store_full("save chunk KV"):
            try:
                write_synced(draft, data)
                with self._lock:
                    self._publish(row, draft)
            finally:
                draft.unlink(missing_ok=True)

    def get(self, key: str) -> dict[str, Tensor]:
        """Return the tensors bit for bit, on the CPU. Raises KeyError if absent, truncated or altered."""
        _check_key(key)
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
        """Return whether the key is in the index; only `get` verifies the file."""
        _check_key(key)
        with self._lock:
            return self._index.row(key) is not None

    def delete(self, key: str) -> None:
        """Delete a key; unknown keys are ignored."""
        _check_key(key)
        with self._lock:
            row = self._index.row(key)
        if row is not None:
            self._drop(row)

    def notes(self) -> dict[str, str]:
        """Return the note of every key."""
        with self._lock:
            return {row.key: row.note for row in self._index.rows()}

    def annotate(self, notes: dict[str, str]) -> None:
        """Replace the notes of existing blobs, all or none. Raises StoreFull."""
        with self._lock, disk_full_as_store_full("save notes about chunk KV"):
            self._index.annotate(notes)

    @property
    def size_bytes(self) -> int:
        """Bytes of all blobs on disk."""
        with self._lock:
            return self._index.size_bytes

    def close(self) -> None:
        with self._lock:
            self._index.close()

    def _publish(self, row: BlobRow, draft: Path) -> None:
        """Move a draft into place, then index it; an indexing error removes the new file."""
        old = self._index.row(row.key)
        path = self._path(row)
        old_path = self._path(old) if old else None
        replace_synced(draft, path)
        try:
            self._index.put(row)
        except BaseException:
            if path != old_path:
                path.unlink(missing_ok=True)
            raise
        if old_path and path != old_path:
            old_path.unlink(missing_ok=True)

    def _drop(self, row: BlobRow) -> None:
        """Delete exactly this blob; one put under the same key in the meantime stays.

        The file is deleted first: if the index cannot be changed, a row without its file is still a miss.
        """
        with self._lock:
            if self._index.row(row.key) == row:
                with suppress(OSError):
                    self._path(row).unlink()
            with suppress(StoreFull), disk_full_as_store_full("delete chunk KV"):
                self._index.delete(row)

    def _reconcile(self) -> None:
        """Delete files without a row, and rows whose file is missing or has another length."""
        rows = {self._path(row): row for row in self._index.rows()}
        for path in self._root.iterdir():
            if path.suffix in (SUFFIX, DRAFT_SUFFIX) and path not in rows:
                path.unlink()
        for path, row in rows.items():
            if not path.is_file() or path.stat().st_size != row.size_bytes:
                self._index.delete(row)
                path.unlink(missing_ok=True)

    def _path(self, row: BlobRow) -> Path:
        return self._root / f"{row.key}-{row.sha256[:16]}{SUFFIX}"


def remove_all(root: Path) -> tuple[int, int]:
    """Delete a folder of blobs that is not open; return the bytes deleted, and the bytes that could not be."""

    def size_bytes() -> int:
        return sum(path.stat().st_size for path in root.glob("*") if path.is_file())

    before = size_bytes()
    shutil.rmtree(root, ignore_errors=True)
    left = size_bytes()
    return before - left, left


def _check_key(key: str) -> None:
    if not 1 <= len(key) <= 128 or set(key) - set("0123456789abcdef"):
        raise ValueError(f"a blob key is a lower-case hex digest of at most 128 digits, got {key!r}")
