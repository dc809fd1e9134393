"""Where the bytes of each tier are: the device's memory, the host's, or blobs on disk."""

import json
import logging
from contextlib import suppress
from dataclasses import asdict

import torch

from engine.cache.tier import Record
from engine.cache.tiers.quantize import quantised_bytes, restored, stored
from engine.types import ChunkKV
from store.types import BlobStore

log = logging.getLogger(__name__)


class MemoryStore:
    """Chunk KV in the memory of one device."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._held = device, dict[str, ChunkKV]()

    def size_of(self, kv: ChunkKV) -> int:
        return kv.size_bytes

    def takes_more(self) -> bool:
        return True

    def put(self, key: str, kv: ChunkKV, record: Record) -> None:
        self._held[key] = kv.to(self._device)

    def get(self, key: str) -> ChunkKV:
        return self._held[key]

    def delete(self, key: str) -> None:
        self._held.pop(key, None)


class DiskStore:
    """Chunk KV as blobs, each with its record as a note.

    bits  16 keeps KV as it is; 8 halves it, and what comes back is close to it and no longer equal

    Keys begin with the bits, so that KV of another precision is never read in its place.
    """

    def __init__(self, blobs: BlobStore, bits: int = 16) -> None:
        if bits not in (8, 16):
            raise ValueError(f"bits must be 8 or 16, got {bits}")
        self._blobs, self._bits = blobs, bits

    def size_of(self, kv: ChunkKV) -> int:
        return kv.size_bytes if self._bits == 16 else quantised_bytes(kv)

    def put(self, key: str, kv: ChunkKV, record: Record) -> None:
        """Raises StoreFull."""
        self._blobs.put(self._named(key), stored(kv, self._bits), self._note(self.size_of(kv), record))

    def get(self, key: str) -> ChunkKV:
        return restored(self._blobs.get(self._named(key)))

    def delete(self, key: str) -> None:
        self._blobs.delete(self._named(key))

    def found(self) -> list[tuple[str, int, Record]]:
        """Return key, bytes and record of all KV of this precision; blobs of any other kind are deleted."""
        found = []
        for name, note in self._blobs.notes().items():
            with suppress(ValueError, KeyError, TypeError):
                fields = json.loads(note)
                size, bits = int(fields.pop("size_bytes")), fields.pop("bits")
                if bits == self._bits:
                    found.append((name[2:], size, Record(**fields)))
                    continue
            self._blobs.delete(name)
        return found

    def remember(self, records: dict[str, tuple[int, Record]]) -> None:
        """Write down what the tree has learned of its nodes: bytes and record by key. Raises StoreFull."""
        self._blobs.annotate({self._named(key): self._note(*one) for key, one in records.items()})

    def _named(self, key: str) -> str:
        return f"{self._bits:02x}{key}"

    def _note(self, size_bytes: int, record: Record) -> str:
        return json.dumps({"bits": self._bits, "size_bytes": size_bytes, **asdict(record)})
