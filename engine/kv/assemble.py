"""Assemble prefix and chunk KV in one buffer, with keys re-rotated to their new positions.

Positions are then correct, but attention between chunks is still missing. The first chunk is exact, because only the
prefix precedes it, as when it was computed. A path of the knowledge tree is exact as a whole.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch

from engine.model.kv_buffer import KVBuffer
from engine.model.rope import rerotate_keys
from engine.types import ChunkKV, Placement


def chunk_spans(prefix_tokens: int, lengths: list[int]) -> tuple[range, ...]:
    """Return the consecutive slots of chunks with these token `lengths`, after the prefix."""
    bounds = accumulate(lengths, initial=prefix_tokens)
    return tuple(range(start, end) for start, end in pairwise(bounds))


@torch.inference_mode()
def assemble(
    buffer: KVBuffer,
    prefix: ChunkKV,
    chunks: Sequence[ChunkKV],
    inv_freq: torch.Tensor,
    placement: Placement = Placement.CONCATENATED,
) -> tuple[range, ...]:
    """Write prefix and chunks into the buffer; return the slots of each chunk.

    chunks     computed as the placement requires; keys are re-rotated only if chunks are concatenated
    inv_freq   [D/2] the model's rotary frequencies
    """
    spans = chunk_spans(prefix.tokens, [chunk.tokens for chunk in chunks])
    buffer.keys[:, :, : prefix.tokens] = prefix.keys
    buffer.values[:, :, : prefix.tokens] = prefix.values
    for chunk, span in zip(chunks, spans, strict=True):
        slots = slice(span.start, span.stop)
        shift = span.start - chunk.start if placement is Placement.CONCATENATED else 0
        rerotate_keys(chunk.keys, shift, inv_freq, out=buffer.keys[:, :, slots])
        buffer.values[:, :, slots] = chunk.values
    buffer.length = spans[-1].stop if spans else prefix.tokens
    return spans
