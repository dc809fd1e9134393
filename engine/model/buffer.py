"""One prompt's keys and values, and passes over chosen rows of it.

A buffer is allocated once, with room for the answer. A pass (`Rows`) runs any ascending set of its slots through the
model: the fresh KV is scattered to those slots, and each row sees exactly the slots at or before its own. A prefill, a
selective recompute and a decoding step are the same pass over different rows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.model.attention import attend, visible

SEGMENT_ROWS = 96  # rows that share one mask; each segment attends only up to its own last slot


class KVBuffer:
    """Preallocated keys and values of one prompt.

    keys, values  [L, H, C, D], rotated; slot i holds the token at position i
    length        slots in use, counted from 0
    """

    def __init__(self, layers: int, heads: int, width: int, capacity: int, dtype: torch.dtype, device: torch.device):
        shape = (layers, heads, capacity, width)
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        self.values = torch.empty(shape, dtype=dtype, device=device)
        self.length = 0

    @property
    def capacity(self) -> int:
        return self.keys.shape[2]

    @property
    def size_bytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes


@dataclass(frozen=True, slots=True)
class _Segment:
    rows: slice
    keys: int  # attends to slots 0..keys
    mask: Tensor | None
    causal: bool


class Rows:
    """A pass over the ascending `slots` [R] of a buffer. Slots before the first row must hold valid KV already."""

    def __init__(self, buffer: KVBuffer, slots: Tensor) -> None:
        if len(slots) == 0:
            raise ValueError("a pass needs at least one row")
        first, last = int(slots[0]), int(slots[-1])
        if last >= buffer.capacity:
            raise ValueError(f"slot {last} is past the buffer's capacity of {buffer.capacity}")
        self._buffer, slots = buffer, slots.to(buffer.keys.device)
        self._end = last + 1
        self._slots: Tensor | slice = slice(first, self._end) if last - first + 1 == len(slots) else slots
        self._segments = _segments(slots, buffer.keys.dtype)
        buffer.length = max(buffer.length, self._end)

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        self._buffer.keys[layer][:, self._slots] = keys[0]
        self._buffer.values[layer][:, self._slots] = values[0]
        return self._buffer.keys[layer, None, :, : self._end], self._buffer.values[layer, None, :, : self._end]

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        mixed = [
            attend(
                query[:, :, part.rows],
                keys[:, :, : part.keys],
                values[:, :, : part.keys],
                scaling,
                part.mask,
                part.causal,
            )
            for part in self._segments
        ]
        return mixed[0] if len(mixed) == 1 else torch.cat(mixed, dim=2)


def _segments(slots: Tensor, dtype: torch.dtype) -> list[_Segment]:
    """Split rows so that few keys are read in vain; one dense mask would waste most of the attention."""
    rows, last = len(slots), int(slots[-1])
    if rows == 1:
        return [_Segment(slice(0, 1), last + 1, None, causal=False)]
    if last + 1 == rows:
        return [_Segment(slice(0, rows), rows, None, causal=True)]
    parts = []
    for start in range(0, rows, SEGMENT_ROWS):
        own = slots[start : start + SEGMENT_ROWS]
        keys = int(own[-1]) + 1
        parts.append(_Segment(slice(start, start + len(own)), keys, visible(own, keys, dtype), causal=False))
    return parts
