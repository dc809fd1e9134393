"""Lay chunk KVs end to end behind the shared prefix, keys moved to their new positions.

Positions are right afterwards; attention from one chunk to another is still missing. The first chunk is exact: nothing
but the prefix comes before it, as when it was computed; so is a whole path of the knowledge tree, which is not moved.
"""

from collections.abc import Sequence

import torch

from engine.model.kv_buffer import KVBuffer
from engine.model.rope import move_keys
from engine.types import ChunkKV, Placement


def layout(prefix: int, lengths: list[int]) -> tuple[range, ...]:
    """Return the slots of chunks with these token `lengths`, laid end to end behind a prefix of `prefix` tokens."""
    spans, start = [], prefix
    for length in lengths:
        spans.append(range(start, start + length))
        start += length
    return tuple(spans)


@torch.inference_mode()
def assemble(
    buffer: KVBuffer,
    prefix: ChunkKV,
    chunks: Sequence[ChunkKV],
    inv_freq: torch.Tensor,
    placement: Placement = Placement.CONCATENATED,
) -> tuple[range, ...]:
    """Write prefix and chunks into the buffer; return the slots of each chunk.

    prefix     positions 0..P; copied as it is
    chunks     each computed as the placement says; may repeat
    inv_freq   [D/2]
    placement  keys are moved only where chunks are joined

    Raises ValueError if they do not fit.
    """
    spans = layout(prefix.tokens, [chunk.tokens for chunk in chunks])
    end = spans[-1].stop if spans else prefix.tokens
    if end > buffer.capacity:
        raise ValueError(f"{end} tokens do not fit into a buffer of {buffer.capacity}")
    buffer.keys[:, :, : prefix.tokens] = prefix.keys
    buffer.values[:, :, : prefix.tokens] = prefix.values
    for chunk, span in zip(chunks, spans, strict=True):
        place = slice(span.start, span.stop)
        shift = span.start - chunk.start if placement is Placement.CONCATENATED else 0
        move_keys(chunk.keys, shift, inv_freq, out=buffer.keys[:, :, place])
        buffer.values[:, :, place] = chunk.values
    buffer.length = end
    return spans
