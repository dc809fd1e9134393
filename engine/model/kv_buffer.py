"""The KV buffer of one prompt, and forward passes over rows of it: prefill, recomputation and decode steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.model.attention import ParallelLayout, attend, attend_parallel, attention_logits, causal_mask
from engine.model.kernels.slot_attention import SlotAttention

SEGMENT_ROWS = 192  # rows that share a mask; each segment attends to the keys up to its last slot only
GPU_SEGMENT_ROWS = 4096  # likewise; on a GPU, calls cost more than masked keys


@dataclass(eq=False)
class KVBuffer:
    """Preallocated keys and values of one prompt and its answer. Slot i has position i, unless chunks are parallel."""

    keys: Tensor  # [L, H, C, D], rotated
    values: Tensor  # [L, H, C, D]
    length: int = 0  # used slots, from slot 0
    parallel: ParallelLayout | None = None
    kernel: SlotAttention | None = None  # attends instead of torch, unless chunks are parallel

    @property
    def capacity(self) -> int:
        return self.keys.shape[2]

    def positions(self, slots: Tensor) -> Tensor:
        """Return the positions of slots outside parallel chunks."""
        if self.parallel is None:
            return slots
        context = self.parallel.context
        offset = context.stop - context.start - self.parallel.longest_tokens
        return torch.where(slots >= context.stop, slots - offset, slots)


class RowPass:
    """A pass over ascending `slots` [R] of a buffer; each row stores its KV, and attends to the slots up to its own.

    Slots before the first row must have valid KV. Raises ValueError for no slots, or one past the buffer's capacity.
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
        self._row_slots = slots
        self._slots: Tensor | slice = slice(first, self._end) if last - first + 1 == len(slots) else slots
        self._kernel = buffer.kernel if buffer.parallel is None and len(slots) > 1 else None
        self._segments = [] if self._kernel else split_rows(slots, buffer.keys.dtype)
        buffer.length = max(buffer.length, self._end)

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self._buffer.keys[layer][:, self._slots] = keys[0]
        self._buffer.values[layer][:, self._slots] = values[0]
        return self._buffer.keys[layer, None, :, : self._end], self._buffer.values[layer, None, :, : self._end]

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        if self._kernel is not None:
            return self._kernel.attend(query, keys, values, self._row_slots, scaling)
        parallel = self._buffer.parallel
        outputs = []
        for rows, num_keys, mask in self._segments:
            part = query[:, :, rows], keys[:, :, :num_keys], values[:, :, :num_keys], scaling, mask
            outputs.append(attend_parallel(*part, parallel) if parallel else attend(*part))
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)


class AttentionProbe(RowPass):
    """A pass that records the attention of its last `num_query_tokens` rows; chunks must not be parallel."""

    def __init__(self, buffer: KVBuffer, slots: Tensor, num_query_tokens: int) -> None:
        super().__init__(buffer, slots)
        self._num_query_tokens = num_query_tokens
        self._mask = causal_mask(slots[-num_query_tokens:].to(buffer.keys.device), self._end, torch.float32)
        self._recorded: list[Tensor] = []
        self._norms: list[Tensor] = []

    @property
    def attention(self) -> Tensor:
        """Mean over the recorded rows, [layers run so far, query heads, last slot + 1] in fp32."""
        return torch.stack(self._recorded)

    @property
    def attention_norm(self) -> Tensor:
        """L2 norm over the recorded rows of the heads' mean, [layers run so far, last slot + 1] in fp32."""
        return torch.stack(self._norms)

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        recorded = query[:, :, -self._num_query_tokens :]
        weights = attention_logits(recorded, keys, scaling, self._mask)[0].softmax(-1)  # [H, query heads / H * R, T]
        by_head = weights.view(*recorded.shape[1:3], -1)
        self._recorded.append(by_head.mean(1).cpu())
        self._norms.append(by_head.mean(0).norm(dim=0).cpu())
        if recorded.shape == query.shape:
            return (weights.to(values.dtype) @ values[0]).view(query.shape)
        return super().attend(layer, query, keys, values, scaling)


class BatchDecode:
    """One decode step for several buffers of different lengths, as one batch, at `positions` [B, 1].

    slots  of the new tokens, [1] each; not the buffers' lengths, which a step that fails has already raised
    """

    def __init__(self, buffers: Sequence[KVBuffer], slots: Sequence[Tensor]) -> None:
        self.positions = torch.stack([b.positions(slot) for b, slot in zip(buffers, slots, strict=True)])
        self._passes = [RowPass(buffer, slot) for buffer, slot in zip(buffers, slots, strict=True)]

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        kv = [row.update(keys[i : i + 1], values[i : i + 1], layer) for i, row in enumerate(self._passes)]
        return [k for k, _ in kv], [v for _, v in kv]

    def attend(self, layer: int, query: Tensor, keys: Any, values: Any, scaling: float) -> Tensor:
        batch = zip(self._passes, query.split(1), keys, values, strict=True)
        return torch.cat([row.attend(layer, q, k, v, scaling) for row, q, k, v in batch])


def split_rows(slots: Tensor, dtype: torch.dtype) -> list[tuple[slice, int, Tensor | None]]:
    """Split rows into segments that read few masked keys: adjacent rows, the number of slots, and a mask."""
    rows, num_keys = len(slots), int(slots[-1]) + 1
    if rows in (1, num_keys):
        return [(slice(0, rows), num_keys, None)]
    segments: list[tuple[slice, int, Tensor | None]] = []
    segment_rows = SEGMENT_ROWS if slots.device.type == "cpu" else GPU_SEGMENT_ROWS
    for start in range(0, rows, segment_rows):
        segment_slots = slots[start : start + segment_rows]
        num_keys = int(segment_slots[-1]) + 1
        mask = causal_mask(segment_slots, num_keys, dtype)
        segments.append((slice(start, start + len(segment_slots)), num_keys, mask))
    return segments
