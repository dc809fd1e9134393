"""Stores of the tiers: memory of a device or the host, or blobs on disk."""

import json
from contextlib import suppress
from dataclasses import asdict

import torch

from engine.cache.tier import Record
from engine.cache.tiers.quantize import from_tensors, quantized_bytes, to_tensors
from engine.types import ChunkKV
from store.types import BlobStore


class MemoryStore:
    """Chunk KV in the memory of one device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._kv: dict[str, ChunkKV] = {}

    def size_of(self, kv: ChunkKV) -> int:
        return kv.size_bytes

    def can_accept(self) -> bool:
        return True

    def put(self, key: str, kv: ChunkKV, record: Record) -> None:
        self._kv[key] = kv.to(self._device)

    def get(self, key: str) -> ChunkKV:
        return self._kv[key]

    def delete(self, key: str) -> None:
        self._kv.pop(key, None)


class DiskStore:
    """Chunk KV as blobs, each with its record as a JSON note; unchanged, or quantized to 8 `bits`.

    Blob names begin with the bits, so that KV of another precision is never read instead.
    """

    def __init__(self, blobs: BlobStore, bits: int = 16) -> None:
        self._blobs = blobs
        self._bits = bits

    def size_of(self, kv: ChunkKV) -> int:
        return kv.size_bytes if self._bits == 16 else quantized_bytes(kv)

    def put(self, key: str, kv: ChunkKV, record: Record) -> None:
        """Write a blob. Raises StoreFull."""
        self._blobs.put(self._blob_name(key), to_tensors(kv, self._bits), self._note(self.size_of(kv), record))

    def get(self, key: str) -> ChunkKV:
        return from_tensors(self._blobs.get(self._blob_name(key)))

    def delete(self, key: str) -> None:
        self._blobs.delete(self._blob_name(key))

    def list_records(self) -> list[tuple[str, int, Record]]:
        """Return key, bytes and record of all KV in this precision; deletes all other blobs."""
        stored = []
        for name, note in self._blobs.notes().items():
            with suppress(ValueError, KeyError, TypeError):
                fields = json.loads(note)
                size_bytes = int(fields.pop("size_bytes"))
                bits = fields.pop("bits")
                if bits == self._bits:
                    stored.append((name[2:], size_bytes, Record(**fields)))
                    continue
            self._blobs.delete(name)
        return stored

    def write_records(self, records: dict[str, tuple[int, Record]]) -> None:
        """Update the notes of blobs; takes bytes and record by key. Raises StoreFull."""
        self._blobs.annotate({self._blob_name(key): self._note(*entry) for key, entry in records.items()})

    def _blob_name(self, key: str) -> str:
        return f"{self._bits:02x}{key}"

    def _note(self, size_bytes: int, record: Record) -> str:
        return json.dumps({"bits": self._bits, "size_bytes": size_bytes, **asdict(record)})
