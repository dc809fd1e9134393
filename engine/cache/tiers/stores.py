"""Stores of the tiers: memory of a device or the host, or blobs on disk, if wanted quantized to 8 bits.

As in KIVI (arXiv:2402.02750): a few key channels are large for all tokens, so keys share a scale along each channel,
and values along each token.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor

from engine.cache.tier import Record
from engine.types import ChunkKV
from store.types import BlobStore

INT8_MAX = 127


@dataclass
class MemoryStore:
    """Chunk KV in the memory of one device."""

    device: torch.device
    _kv: dict[str, ChunkKV] = field(default_factory=dict)

    def size_of(self, kv: ChunkKV) -> int:
        return kv.size_bytes

    def can_accept(self) -> bool:
        return True

    def put(self, key: str, kv: ChunkKV, record: Record) -> None:
        self._kv[key] = kv.to(self.device)

    def get(self, key: str) -> ChunkKV:
        return self._kv[key]

    def delete(self, key: str) -> None:
        self._kv.pop(key, None)


@dataclass
class DiskStore:
    """Chunk KV as blobs, each with its record as a JSON note.

    Blob names begin with the bits, so that KV of another precision is never read instead.
    """

    blobs: BlobStore
    bits: int = 16  # 8: quantized

    def size_of(self, kv: ChunkKV) -> int:
        if self.bits == 16:
            return kv.size_bytes
        layers, heads, tokens, head_dim = kv.keys.shape
        return 2 * kv.keys.numel() + 4 * layers * heads * (head_dim + tokens)  # with the fp32 scales

    def put(self, key: str, kv: ChunkKV, record: Record) -> None:
        """Write a blob. Raises StoreFull."""
        self.blobs.put(self._blob_name(key), to_tensors(kv, self.bits), self._note(self.size_of(kv), record))

    def get(self, key: str) -> ChunkKV:
        return from_tensors(self.blobs.get(self._blob_name(key)))

    def delete(self, key: str) -> None:
        self.blobs.delete(self._blob_name(key))

    def list_records(self) -> list[tuple[str, int, Record]]:
        """Return key, bytes and record of all KV in this precision; deletes all other blobs."""
        stored = []
        for name, note in self.blobs.notes().items():
            with suppress(ValueError, KeyError, TypeError):
                fields = json.loads(note)
                size_bytes = int(fields.pop("size_bytes"))
                if fields.pop("bits") == self.bits:
                    stored.append((name[2:], size_bytes, Record(**fields)))
                    continue
            self.blobs.delete(name)
        return stored

    def write_records(self, records: dict[str, tuple[int, Record]]) -> None:
        """Update the notes of blobs; takes bytes and record by key. Raises StoreFull."""
        self.blobs.annotate({self._blob_name(key): self._note(*entry) for key, entry in records.items()})

    def _blob_name(self, key: str) -> str:
        return f"{self.bits:02x}{key}"

    def _note(self, size_bytes: int, record: Record) -> str:
        return json.dumps({"bits": self.bits, "size_bytes": size_bytes, **asdict(record)})


def to_tensors(kv: ChunkKV, bits: int) -> dict[str, Tensor]:
    """Return chunk KV as named tensors: unchanged for 16 `bits`, quantized for 8."""
    start = torch.tensor([kv.start])
    if bits == 16:
        return {"keys": kv.keys, "values": kv.values, "start": start}
    keys, key_scales = _quantize(kv.keys, dim=2)
    values, value_scales = _quantize(kv.values, dim=3)
    kind = torch.empty(0, dtype=kv.keys.dtype)  # only its dtype is read
    scales = {"key_scales": key_scales, "value_scales": value_scales}
    return {"keys": keys, "values": values, **scales, "start": start, "kind": kind}


def from_tensors(tensors: dict[str, Tensor]) -> ChunkKV:
    """Return the chunk KV that `to_tensors` was given; exact for 16 bits."""
    keys = tensors["keys"]
    values = tensors["values"]
    quantized = "kind" in tensors
    if quantized:
        dtype = tensors["kind"].dtype
        keys = (keys.float() * tensors["key_scales"]).to(dtype)
        values = (values.float() * tensors["value_scales"]).to(dtype)
    return ChunkKV(keys, values, int(tensors["start"]), quantized)


def _quantize(tensor: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return int8 values and fp32 scales, one scale for all values along `dim`."""
    scales = tensor.float().abs().amax(dim, keepdim=True).clamp_min(1e-12) / INT8_MAX
    return (tensor.float() / scales).round().to(torch.int8), scales
