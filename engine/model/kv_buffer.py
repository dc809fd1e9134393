"""One prompt's keys and values, and passes over chosen rows of it.

A buffer is allocated once, with room for the answer. A pass (`Rows`) runs any ascending set of its slots through the
model: the fresh KV is scattered to those slots, and each row sees exactly the slots at or before its own. A prefill, a
selective recompute and a decoding step are the same pass over different rows.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.model.attention import attend, attend_merged, visible, weighted, weights
from engine.types import ParallelAttention

SEGMENT_ROWS = 192  # rows that share one mask; each segment attends only up to its own last slot


@dataclass(frozen=True, slots=True)
class Parallel:
    """Chunks that share positions: the slots they take, and how what comes behind them attends to them.

    context  slots of all chunks
    longest  tokens of the longest chunk: whatever follows the chunks stands behind that one
    """

    context: slice
    longest: int
    merge: ParallelAttention


class KVBuffer:
    """Preallocated keys and values of one prompt.

    keys, values  [L, H, C, D], rotated; slot i holds the token at position i, unless chunks stand in parallel
    length        slots in use, counted from 0
    parallel      None unless chunks share positions
    """

    def __init__(self, layers: int, heads: int, width: int, capacity: int, dtype: torch.dtype, device: torch.device):
        shape = (layers, heads, capacity, width)
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        self.values = torch.empty(shape, dtype=dtype, device=device)
        self.length = 0
        self.parallel: Parallel | None = None

    def positions(self, slots: Tensor) -> Tensor:
        """Return the positions at which the tokens of `slots`, none of them a parallel chunk's, are rotated."""
        if self.parallel is None:
            return slots
        skipped = self.parallel.context.stop - self.parallel.context.start - self.parallel.longest
        return torch.where(slots >= self.parallel.context.stop, slots - skipped, slots)

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


class RowPass:
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
            self._attend(part, query[:, :, part.rows], keys[:, :, : part.keys], values[:, :, : part.keys], scaling)
            for part in self._segments
        ]
        return mixed[0] if len(mixed) == 1 else torch.cat(mixed, dim=2)

    def _attend(self, part: _Segment, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        parallel = self._buffer.parallel
        if parallel is None:
            return attend(query, keys, values, scaling, part.mask, part.causal)
        mask = torch.zeros(1, 1, 1, part.keys, device=keys.device) if part.mask is None else part.mask
        return attend_merged(query, keys, values, scaling, mask, parallel.context, parallel.merge)


class AttentionProbe(RowPass):
    """A pass that notes what its last `asked` rows attend to; the buffer's chunks must not stand in parallel."""

    def __init__(self, buffer: KVBuffer, slots: Tensor, asked: int) -> None:
        super().__init__(buffer, slots)
        self._asked, self._all = asked, asked == len(slots)
        self._mask = visible(slots[-asked:].to(buffer.keys.device), self._end, torch.float32)
        self._seen: list[Tensor] = []

    @property
    def attention(self) -> Tensor:
        """[layers that have run, query heads, last slot + 1] in fp32, mean over the asked rows."""
        return torch.stack(self._seen)

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        paid = weights(query[:, :, -self._asked :], keys, scaling, self._mask)
        self._seen.append(paid.mean(1).cpu())
        return weighted(paid, values) if self._all else super().attend(layer, query, keys, values, scaling)


class BatchDecode:
    """One row for each of several buffers, in one batch: prompts of different lengths decode side by side."""

    def __init__(self, buffers: list[KVBuffer]) -> None:
        slots = [torch.tensor([buffer.length]) for buffer in buffers]
        self.positions = torch.stack([b.positions(slot) for b, slot in zip(buffers, slots, strict=True)])  # [B, 1]
        self._rows = [RowPass(buffer, slot) for buffer, slot in zip(buffers, slots, strict=True)]

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: object, **kwargs: object) -> tuple[Any, Any]:
        held = [row.update(keys[i : i + 1], values[i : i + 1], layer) for i, row in enumerate(self._rows)]
        return [k for k, _ in held], [v for _, v in held]

    def attend(self, layer: int, query: Tensor, keys: Any, values: Any, scaling: float) -> Tensor:
        parts = zip(self._rows, query.split(1), keys, values, strict=True)
        return torch.cat([row.attend(layer, one, k, v, scaling) for row, one, k, v in parts])


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
