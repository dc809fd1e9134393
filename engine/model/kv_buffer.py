"""The KV buffer of one prompt, and forward passes over selected rows of it.

A buffer is allocated once, with space for the answer. A `RowPass` runs any ascending set of its slots through the
model: their new KV is scattered into the buffer, and each row attends to the slots up to its own. Prefill, selective
recomputation and a decode step are the same pass over different rows.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.model.attention import apply_weights, attend, attend_parallel, attention_weights, causal_mask
from engine.types import ParallelAttention

SEGMENT_ROWS = 192  # rows that share a mask; each segment attends to the keys up to its last slot only


@dataclass(frozen=True, slots=True)
class ParallelLayout:
    """Chunks that share positions (APE).

    context         slots of all chunks
    longest_tokens  tokens of the longest chunk; the tokens after the chunks take the positions after it
    attention       how later rows attend to the context
    """

    context: slice
    longest_tokens: int
    attention: ParallelAttention


class KVBuffer:
    """Preallocated keys and values of one prompt.

    keys, values  [L, H, C, D], keys rotated; slot i has position i, unless chunks are parallel
    length        used slots, counted from 0
    parallel      None unless chunks share positions
    """

    def __init__(
        self, num_layers: int, num_kv_heads: int, head_dim: int, capacity: int, dtype: torch.dtype, device: torch.device
    ):
        shape = (num_layers, num_kv_heads, capacity, head_dim)
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        self.values = torch.empty(shape, dtype=dtype, device=device)
        self.length = 0
        self.parallel: ParallelLayout | None = None

    def positions(self, slots: Tensor) -> Tensor:
        """Return the positions of slots outside parallel chunks."""
        if self.parallel is None:
            return slots
        offset = self.parallel.context.stop - self.parallel.context.start - self.parallel.longest_tokens
        return torch.where(slots >= self.parallel.context.stop, slots - offset, slots)

    @property
    def capacity(self) -> int:
        return self.keys.shape[2]

    @property
    def size_bytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes


@dataclass(frozen=True, slots=True)
class _Segment:
    """Adjacent rows of a pass; they attend to the first `num_keys` slots."""

    rows: slice
    num_keys: int
    mask: Tensor | None
    causal: bool


class RowPass:
    """A pass over ascending `slots` [R] of a buffer; slots before the first row must have valid KV.

    Raises ValueError if there are no slots, or if one is past the buffer's capacity.
    """

    def __init__(self, buffer: KVBuffer, slots: Tensor) -> None:
        if len(slots) == 0:
            raise ValueError("a pass needs at least one row")
        first, last = int(slots[0]), int(slots[-1])
        if last >= buffer.capacity:
            raise ValueError(f"slot {last} is past the buffer's capacity of {buffer.capacity}")
        slots = slots.to(buffer.keys.device)
        self._buffer = buffer
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
        outputs = [
            self._attend(
                segment,
                query[:, :, segment.rows],
                keys[:, :, : segment.num_keys],
                values[:, :, : segment.num_keys],
                scaling,
            )
            for segment in self._segments
        ]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)

    def _attend(self, segment: _Segment, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        parallel = self._buffer.parallel
        if parallel is None:
            return attend(query, keys, values, scaling, segment.mask, segment.causal)
        mask = torch.zeros(1, 1, 1, segment.num_keys, device=keys.device) if segment.mask is None else segment.mask
        return attend_parallel(query, keys, values, scaling, mask, parallel.context, parallel.attention)


class AttentionProbe(RowPass):
    """A pass that records the attention of its last `num_query_tokens` rows; chunks must not be parallel."""

    def __init__(self, buffer: KVBuffer, slots: Tensor, num_query_tokens: int) -> None:
        super().__init__(buffer, slots)
        self._num_query_tokens = num_query_tokens
        self._all_rows = num_query_tokens == len(slots)
        self._mask = causal_mask(slots[-num_query_tokens:].to(buffer.keys.device), self._end, torch.float32)
        self._recorded: list[Tensor] = []

    @property
    def attention(self) -> Tensor:
        """Mean over the recorded rows, [layers run so far, query heads, last slot + 1] in fp32."""
        return torch.stack(self._recorded)

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        weights = attention_weights(query[:, :, -self._num_query_tokens :], keys, scaling, self._mask)
        self._recorded.append(weights.mean(1).cpu())
        return apply_weights(weights, values) if self._all_rows else super().attend(layer, query, keys, values, scaling)


class BatchDecode:
    """One decode step for several buffers of different lengths, as one batch.

    positions  [B, 1]
    """

    def __init__(self, buffers: list[KVBuffer]) -> None:
        slots = [torch.tensor([buffer.length]) for buffer in buffers]
        self.positions = torch.stack([b.positions(slot) for b, slot in zip(buffers, slots, strict=True)])
        self._passes = [RowPass(buffer, slot) for buffer, slot in zip(buffers, slots, strict=True)]

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: object, **kwargs: object) -> tuple[Any, Any]:
        kv = [row.update(keys[i : i + 1], values[i : i + 1], layer) for i, row in enumerate(self._passes)]
        return [k for k, _ in kv], [v for _, v in kv]

    def attend(self, layer: int, query: Tensor, keys: Any, values: Any, scaling: float) -> Tensor:
        batch = zip(self._passes, query.split(1), keys, values, strict=True)
        return torch.cat([row.attend(layer, q, k, v, scaling) for row, q, k, v in batch])


def _segments(slots: Tensor, dtype: torch.dtype) -> list[_Segment]:
    """Split rows into segments that read few masked keys; one dense mask would waste most of the attention."""
    rows, last = len(slots), int(slots[-1])
    if rows == 1:
        return [_Segment(slice(0, 1), last + 1, None, causal=False)]
    if last + 1 == rows:
        return [_Segment(slice(0, rows), rows, None, causal=True)]
    segments = []
    for start in range(0, rows, SEGMENT_ROWS):
        segment_slots = slots[start : start + SEGMENT_ROWS]
        num_keys = int(segment_slots[-1]) + 1
        mask = causal_mask(segment_slots, num_keys, dtype)
        segments.append(_Segment(slice(start, start + len(segment_slots)), num_keys, mask, causal=False))
    return segments
