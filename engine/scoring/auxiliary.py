"""Scores of context tokens by the auxiliary model's attention (CacheClip, arXiv:2510.10129).

The auxiliary model has its own chunk KV, so only the question's tokens are run. The paper finetunes this model by an
unpublished recipe; here it is a published model, or the main model itself. Joint scoring is ours. Scoring runs on
the CPU, in parallel with loading the main model's KV.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kv.chunk_cache import ChunkCache, TouchedNodes, chunk_spans
from engine.model.attention import attention_logits, causal_mask
from engine.model.rope import rerotate_keys
from engine.prompt.template import MAX_QUERY_ROWS, PromptTemplate
from engine.scoring.trained_selector import TokenSelector
from engine.types import ChunkKV, ScoreMode


@dataclass(frozen=True)
class AuxiliaryScorer:
    """Scores context tokens with the auxiliary model, or with a token selector in its place."""

    cache: ChunkCache  # of the auxiliary model
    template: PromptTemplate  # likewise
    selector: TokenSelector | None = None  # for `ScoreMode.LEARNED`; without one, chunks are scored jointly

    def resolve_mode(self, mode: ScoreMode) -> ScoreMode:
        """Return the mode that is actually used: JOINT instead of LEARNED without a selector."""
        return ScoreMode.JOINT if mode is ScoreMode.LEARNED and self.selector is None else mode

    def score(
        self,
        question: str,
        texts: Sequence[str],
        primary: PromptTemplate,
        mode: ScoreMode = ScoreMode.PER_CHUNK,
        chunks: Sequence[ChunkKV] | None = None,
        cancel: Event | None = None,
        touched_nodes: TouchedNodes | None = None,
    ) -> Tensor:
        """Return a score for each of the main model's context tokens, [tokens of all texts], fp32.

        primary        template of the main model, whose tokens are scored
        chunks         the passages' KV, if both models are the same and it is loaded
        touched_nodes  receives the tree nodes that were read, as in `ChunkCache.get_or_compute_all`
        """
        if self.selector is not None and mode is ScoreMode.LEARNED:
            return self.selector.score(question, texts, [primary.passage(text) for text in texts], cancel)
        passages = [self.template.passage(text) for text in texts]
        if not chunks:
            hits = self.cache.get_or_compute_all([passage.ids for passage in passages], cancel, touched_nodes)
            chunks = [kv for kv, _ in hits]
        if mode is ScoreMode.PER_CHUNK:
            scores = self.score_per_chunk(self.template.query_ids(question), chunks, cancel)
        else:
            scores = self.score_jointly(self.template.suffix_ids(question)[-MAX_QUERY_ROWS:], chunks, cancel)
        if primary.tokenizer.fingerprint == self.template.tokenizer.fingerprint:
            return torch.cat(scores)
        sources = (passage.spans for passage in passages)
        targets = (primary.passage(text).spans for text in texts)
        return torch.cat([align(*each) for each in zip(scores, sources, targets, strict=True)])

    @torch.inference_mode()
    def score_per_chunk(
        self, query_ids: Sequence[int], chunks: Sequence[ChunkKV], cancel: Event | None = None
    ) -> list[Tensor]:
        """Return the last layer's mean attention of the question to each chunk alone, [tokens] each, fp32."""
        batch = _ChunkBatch(self.cache, chunks, len(query_ids))
        self.cache.decoder.forward(torch.tensor([query_ids] * len(chunks)), batch.positions, batch, cancel)
        return [row[: chunk.tokens] for row, chunk in zip(batch.scores, chunks, strict=True)]

    @torch.inference_mode()
    def score_jointly(
        self, query_ids: Sequence[int], chunks: Sequence[ChunkKV], cancel: Event | None = None
    ) -> list[Tensor]:
        """Return all layers' mean attention to each chunk when all are attended to at once, [tokens] each, fp32.

        Each layer is normalised over the context, so that it has one vote, however much attention goes to the prefix.
        """
        joint = _InPlacePass(self.cache, chunks, len(query_ids))
        self.cache.decoder.forward(torch.tensor([query_ids]), joint.positions, joint, cancel)
        attention = torch.stack(joint.attention)
        attention /= attention.sum(-1, keepdim=True)
        return list(attention.sum(0).split([chunk.tokens for chunk in chunks]))


def align(scores: Tensor, source: Sequence[tuple[int, int]], target: Sequence[tuple[int, int]]) -> Tensor:
    """Return for each target token the best score of the source tokens that share a character with it, or 0.

    The best, not the mean: whatever is selected in the source stays selected, so every selected character is covered.
    Source and target are the (start, end) characters of each token of the same text, both ascending.
    """
    spans, onto = (np.array(each, dtype=int).reshape(-1, 2) for each in (source, target))
    carried = torch.zeros(len(onto), dtype=scores.dtype)
    first = np.searchsorted(spans[:, 1], onto[:, 0], side="right")
    last = np.searchsorted(spans[:, 0], onto[:, 1], side="left")
    for token in np.flatnonzero((last > first) & (onto[:, 1] > onto[:, 0])):
        carried[token] = scores[first[token] : last[token]].max()
    return carried


class _ChunkBatch:
    """An `AttentionPass` with one batch row per chunk: prefix, chunk, padding, question."""

    def __init__(self, cache: ChunkCache, chunks: Sequence[ChunkKV], num_query_tokens: int) -> None:
        prefix, spec = cache.prefix, cache.decoder.spec
        start = prefix.tokens
        self._prefix = prefix
        self._chunks = [  # those of a path have later positions
            replace(chunk, keys=rerotate_keys(chunk.keys, start - chunk.start, spec.inv_freq)) for chunk in chunks
        ]
        self._last_layer = spec.num_layers - 1
        query_start = start + max(chunk.tokens for chunk in chunks)
        self._query = slice(query_start, query_start + num_query_tokens)
        shape = (len(chunks), prefix.keys.shape[1], self._query.stop, prefix.keys.shape[3])
        self._keys = prefix.keys.new_zeros(shape)
        self._values = prefix.values.new_zeros(shape)
        ends = start + torch.tensor([chunk.tokens for chunk in chunks])
        hidden = torch.zeros(len(chunks), 1, num_query_tokens, self._query.stop, dtype=torch.bool)
        hidden[..., :query_start] = (torch.arange(query_start) >= ends[:, None])[:, None, None]  # padding
        hidden[..., self._query] = torch.ones(num_query_tokens, num_query_tokens, dtype=torch.bool).triu(1)
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))
        self._mask = mask.to(prefix.keys.device)  # [B, 1, Q, N]
        self.positions = ends[:, None] + torch.arange(num_query_tokens)  # of the question in each row, [B, Q]
        self.scores = torch.empty(0)  # [B, longest chunk] after the last layer

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        start = self._prefix.tokens
        for batch, fresh, name in ((self._keys, keys, "keys"), (self._values, values, "values")):
            batch[:, :, :start] = getattr(self._prefix, name)[layer]
            for row, chunk in enumerate(self._chunks):
                batch[row, :, start : start + chunk.tokens] = getattr(chunk, name)[layer]
            batch[:, :, self._query] = fresh
        return self._keys, self._values

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        if layer == self._last_layer:
            attention = attention_logits(query, keys, scaling, self._mask).softmax(-1).mean(dim=(1, 2))  # [B, N]
            self.scores = attention[:, self._prefix.tokens : self._query.start].cpu()
            return query  # the output of the last layer is not used
        batch, heads, _, width = query.shape
        grouped = query.reshape(batch, keys.shape[1], -1, width)  # all query heads of a KV head
        mask = self._mask.repeat(1, 1, heads // keys.shape[1], 1).to(query.dtype)
        mixed = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask, scale=scaling)
        return mixed.reshape(query.shape)


class _InPlacePass:
    """An `AttentionPass` of the question over prefix and chunks, as if the chunks were concatenated.

    No key is re-rotated or copied: rotating the query by R(-s) gives the same logits as rotating the key by R(s), and
    the question is much shorter than the chunks. Columns of the logits: context, prefix, question.
    """

    def __init__(self, cache: ChunkCache, chunks: Sequence[ChunkKV], num_query_tokens: int) -> None:
        prefix, spec = cache.prefix, cache.decoder.spec
        spans = chunk_spans(0, [chunk.tokens for chunk in chunks])
        self._prefix = prefix
        self._last_layer = spec.num_layers - 1
        self._inv_freq = spec.inv_freq
        self._chunks = [(kv, slice(span.start, span.stop)) for kv, span in zip(chunks, spans, strict=True)]
        self._context_tokens = spans[-1].stop
        shifts = [kv.start - prefix.tokens - columns.start for kv, columns in self._chunks]
        self._shifts = torch.tensor(shifts, device=prefix.keys.device)[:, None, None]
        rows = torch.arange(num_query_tokens)
        self._mask = causal_mask(rows, num_query_tokens, torch.float32)[0].to(prefix.keys.device)
        self.positions = rows[None] + prefix.tokens + self._context_tokens  # of the question, [1, Q]
        self.attention: list[Tensor] = []  # of each layer so far, [context tokens] fp32

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Return prefix and question, the KV to which queries attend without rotation."""
        return (
            torch.cat((self._prefix.keys[layer, None], keys), dim=2),
            torch.cat((self._prefix.values[layer, None], values), dim=2),
        )

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        heads, (_, _, rows, width) = keys.shape[1], query.shape
        context = self._context_tokens
        grouped = (query * scaling).reshape(heads, -1, width)  # all query heads of a KV head
        rotated = rerotate_keys(grouped, self._shifts, self._inv_freq)  # one rotation per chunk
        logits = torch.empty(*grouped.shape[:2], context + keys.shape[2], dtype=query.dtype, device=query.device)
        for chunk_query, (kv, columns) in zip(rotated, self._chunks, strict=True):
            logits[..., columns] = chunk_query @ kv.keys[layer].transpose(1, 2)
        logits[..., context:] = grouped @ keys[0].transpose(1, 2)
        logits.view(heads, -1, rows, logits.shape[2])[..., -rows:] += self._mask
        weights = logits.softmax(-1)
        self.attention.append(weights[..., :context].mean((0, 1), dtype=torch.float32).cpu())
        if layer == self._last_layer:
            return query  # the output of the last layer is not used
        mixed = (weights[..., context:] @ values[0]).float()
        for kv, columns in self._chunks:
            mixed += weights[..., columns] @ kv.values[layer]
        return mixed.to(query.dtype).view(query.shape)
