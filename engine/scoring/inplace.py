"""A question's pass over chunk KV where it lies: the queries are turned to each chunk, and no key is moved.

Attention depends on how far a query stands from a key. Moving a key by s turns it by R(s); turning the query by R(-s)
gives the same product, and the question is short where the chunks are long. So nothing is laid end to end, nothing
is copied, and all of it runs in the model's own precision; only the mean over heads and the question's tokens is in
fp32.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.kv.assemble import layout
from engine.model.attention import visible
from engine.model.rope import move_keys
from engine.types import ChunkKV


class InPlacePass:
    """The pass over prefix, chunks and the question itself, as if the chunks stood end to end. A `Reader`.

    asked  tokens of the question
    last   the last layer that will run: nobody reads what comes after its attention

    `positions` are the question's, [1, Q].
    """

    def __init__(self, prefix: ChunkKV, chunks: Sequence[ChunkKV], asked: int, last: int, inv_freq: Tensor) -> None:
        spans = layout(0, [chunk.tokens for chunk in chunks])
        self._prefix, self._last, self._inv_freq = prefix, last, inv_freq
        self._chunks = [(kv, slice(at.start, at.stop)) for kv, at in zip(chunks, spans, strict=True)]
        self._context = sum(chunk.tokens for chunk in chunks)  # columns: the context's, the prefix's, the question's
        shifts = [kv.start - prefix.tokens - at.start for kv, at in self._chunks]
        self._shifts = torch.tensor(shifts)[:, None, None]
        self._mask = visible(torch.arange(asked), asked, torch.float32)[0].to(prefix.keys.device)
        self._seen: list[Tensor] = []
        self.positions = torch.arange(asked)[None] + prefix.tokens + self._context

    @property
    def attention(self) -> Tensor:
        """[layers that have run, context tokens] in fp32, mean over query heads and the question's tokens."""
        return torch.stack(self._seen)

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Return what needs no turning: the prefix and the question itself."""
        held = ((self._prefix.keys, keys), (self._prefix.values, values))
        ours, theirs = (torch.cat((prefix[layer, None], fresh), dim=2) for prefix, fresh in held)
        return ours, theirs

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        heads, (_, query_heads, rows, width) = keys.shape[1], query.shape
        folded = (query * scaling).reshape(heads, -1, width)  # a key head serves its query heads at once
        turned, context = move_keys(folded, self._shifts, self._inv_freq), self._context
        logits = torch.empty(*folded.shape[:2], context + keys.shape[2], dtype=query.dtype, device=query.device)
        for own, (kv, at) in zip(turned, self._chunks, strict=True):
            logits[..., at] = own @ kv.keys[layer].transpose(1, 2)
        logits[..., context:] = folded @ keys[0].transpose(1, 2)
        logits.view(heads, -1, rows, logits.shape[2])[..., -rows:] += self._mask
        paid = logits.softmax(-1)
        self._seen.append(paid[..., :context].mean((0, 1), dtype=torch.float32).cpu())
        if layer == self._last:
            return query
        mixed = (paid[..., context:] @ values[0]).float()
        for kv, at in self._chunks:
            mixed += paid[..., at] @ kv.values[layer]
        return mixed.to(query.dtype).view(1, query_heads, rows, width)
