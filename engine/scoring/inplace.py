"""Joint scoring over chunk KV without assembling it: queries are rotated to each chunk, and no key is re-rotated.

Attention depends on the distance between query and key. Rotating the query by R(-s) gives the same logits as rotating
the key by R(s), and the question is much shorter than the chunks. Nothing is copied, and everything runs in the
model's dtype; only the mean over heads and question tokens is fp32.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.kv.assemble import chunk_spans
from engine.model.attention import causal_mask
from engine.model.rope import rerotate_keys
from engine.types import ChunkKV


class InPlacePass:
    """An `AttentionPass` of the question over prefix and chunks, as if the chunks were concatenated.

    num_query_tokens  rows of the pass
    last_layer        the last layer to run; its output is not used

    `positions` are the question's, [1, Q]. Columns of the logits: context, prefix, question.
    """

    def __init__(
        self, prefix: ChunkKV, chunks: Sequence[ChunkKV], num_query_tokens: int, last_layer: int, inv_freq: Tensor
    ) -> None:
        spans = chunk_spans(0, [chunk.tokens for chunk in chunks])
        self._prefix = prefix
        self._last_layer = last_layer
        self._inv_freq = inv_freq
        self._chunks = [(kv, slice(span.start, span.stop)) for kv, span in zip(chunks, spans, strict=True)]
        self._context_tokens = sum(chunk.tokens for chunk in chunks)
        shifts = [kv.start - prefix.tokens - columns.start for kv, columns in self._chunks]
        self._shifts = torch.tensor(shifts)[:, None, None]
        rows = torch.arange(num_query_tokens)
        self._mask = causal_mask(rows, num_query_tokens, torch.float32)[0].to(prefix.keys.device)
        self._attention: list[Tensor] = []
        self.positions = rows[None] + prefix.tokens + self._context_tokens

    @property
    def attention(self) -> Tensor:
        """[layers that have run, context tokens] fp32, mean over query heads and question tokens."""
        return torch.stack(self._attention)

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Return prefix and question, the KV to which queries attend without rotation."""
        return (
            torch.cat((self._prefix.keys[layer, None], keys), dim=2),
            torch.cat((self._prefix.values[layer, None], values), dim=2),
        )

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        heads, (_, query_heads, rows, width) = keys.shape[1], query.shape
        context = self._context_tokens
        grouped = (query * scaling).reshape(heads, -1, width)  # all query heads of a KV head
        rotated = rerotate_keys(grouped, self._shifts, self._inv_freq)  # one rotation per chunk
        logits = torch.empty(*grouped.shape[:2], context + keys.shape[2], dtype=query.dtype, device=query.device)
        for chunk_query, (kv, columns) in zip(rotated, self._chunks, strict=True):
            logits[..., columns] = chunk_query @ kv.keys[layer].transpose(1, 2)
        logits[..., context:] = grouped @ keys[0].transpose(1, 2)
        logits.view(heads, -1, rows, logits.shape[2])[..., -rows:] += self._mask
        weights = logits.softmax(-1)
        self._attention.append(weights[..., :context].mean((0, 1), dtype=torch.float32).cpu())
        if layer == self._last_layer:
            return query
        mixed = (weights[..., context:] @ values[0]).float()
        for kv, columns in self._chunks:
            mixed += weights[..., columns] @ kv.values[layer]
        return mixed.to(query.dtype).view(1, query_heads, rows, width)
