"""Chunk KV from wherever it is cheapest: host memory, disk, or the model itself."""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from threading import Event, Lock

import torch

from engine.model.decoder import Decoder
from engine.reuse import fingerprint
from engine.types import ChunkKV
from store.errors import StoreFull
from store.types import BlobStore

CPU = torch.device("cpu")
log = logging.getLogger(__name__)


class HostTier:
    """Chunk KV in host memory by fingerprint; the least recently used goes first when the budget is full."""

    def __init__(self, budget_bytes: int) -> None:
        if budget_bytes < 0:
            raise ValueError(f"budget_bytes must not be negative, got {budget_bytes}")
        self._budget, self._held, self._lock = budget_bytes, OrderedDict[str, ChunkKV](), Lock()
        self.size_bytes = 0

    def get(self, key: str) -> ChunkKV | None:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def put(self, key: str, kv: ChunkKV) -> None:
        with self._lock:
            self._drop(key)
            self._held[key] = kv
            self.size_bytes += kv.size_bytes
            while self.size_bytes > self._budget and self._held:
                self._drop(next(iter(self._held)))

    def delete(self, key: str) -> None:
        with self._lock:
            self._drop(key)

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self.size_bytes = 0

    def _drop(self, key: str) -> None:
        gone = self._held.pop(key, None)
        self.size_bytes -= gone.size_bytes if gone else 0


@dataclass
class ChunkCache:
    """Chunk KV of one model after one shared prefix.

    host, blobs  shared between models: fingerprints keep them apart, and equal models share everything
    full         set while the disk refuses to take more; answering goes on without it
    """

    decoder: Decoder
    prefix_ids: tuple[int, ...]
    host: HostTier
    blobs: BlobStore
    full: bool = False
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._model = fingerprint.of_model(self.decoder)
        buffer = self.decoder.buffer(len(self.prefix_ids))
        if self.prefix_ids:
            self.decoder.prefill(torch.tensor(self.prefix_ids), buffer, torch.arange(len(self.prefix_ids)))
        self.prefix = ChunkKV(buffer.keys, buffer.values)

    @cached_property
    def alone(self) -> "ChunkCache":
        """The same chunks computed without any prefix: what naive reuse finds."""
        return ChunkCache(self.decoder, (), self.host, self.blobs)

    @property
    def fingerprint(self) -> str:
        """Names the model and the prefix: two caches with the same one hold the same KV."""
        return fingerprint.of_chunk(self._model, self.prefix_ids, ())

    def key(self, ids: Sequence[int]) -> str:
        return fingerprint.of_chunk(self._model, self.prefix_ids, ids)

    def get(self, ids: Sequence[int], cancel: Event | None = None) -> tuple[ChunkKV, str]:
        """Return a chunk's KV and the tier it came from: 'host', 'disk', or 'computed'.

        Two threads that ask for the same chunk compute it once. Raises Cancelled once `cancel` is set.
        """
        key = self.key(ids)
        with self._lock:
            kv, tier = self.host.get(key), "host"
            if kv is None:
                kv, tier = self._from_disk(key), "disk"
            if kv is None:
                kv, tier = self.compute(ids, cancel).to(CPU), "computed"
                self._to_disk(key, kv)
            if tier != "host":
                self.host.put(key, kv)
        return kv.to(self.decoder.device), tier

    def compute(self, ids: Sequence[int], cancel: Event | None = None) -> ChunkKV:
        """Prefill one chunk behind the shared prefix."""
        return prefill_chunk(self.decoder, self.prefix, ids, cancel)

    def delete(self, ids: Sequence[int]) -> None:
        """Remove a chunk's KV from every tier, however it was computed."""
        for key in (self.key(ids), fingerprint.of_chunk(self._model, (), ids)):
            self.host.delete(key)
            self.blobs.delete(key)

    def _from_disk(self, key: str) -> ChunkKV | None:
        with suppress(KeyError):
            held = self.blobs.get(key)
            return ChunkKV(held["keys"], held["values"])
        return None

    def _to_disk(self, key: str, kv: ChunkKV) -> None:
        try:
            self.blobs.put(key, {"keys": kv.keys, "values": kv.values})
            self.full = False
        except StoreFull as error:
            self.full = True
            log.warning("chunk KV stays in memory only: %s", error)


def prefill_chunk(decoder: Decoder, prefix: ChunkKV, ids: Sequence[int], cancel: Event | None = None) -> ChunkKV:
    """Return the KV of one chunk, computed behind the shared prefix. Raises Cancelled once `cancel` is set."""
    start = prefix.tokens
    buffer = decoder.buffer(start + len(ids))
    buffer.keys[:, :, :start] = prefix.keys
    buffer.values[:, :, :start] = prefix.values
    decoder.prefill(torch.tensor(ids), buffer, torch.arange(start, start + len(ids)), cancel)
    return ChunkKV(buffer.keys[:, :, start:].contiguous(), buffer.values[:, :, start:].contiguous())
