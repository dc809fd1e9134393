"""Scores of context tokens by the auxiliary model's attention (CacheClip, arXiv:2510.10129).

The auxiliary model has its own KV for every (prefix + chunk), so only the question's tokens are run. As in the paper,
each chunk is scored independently, in one batch: a token's score is the last layer's attention to it, averaged over
heads and question tokens, without the shared prefix. The paper finetunes its auxiliary model by an unpublished recipe;
here it is an off-the-shelf model, or the main model itself. Joint scoring over all chunks and layers is ours.
Scoring runs on the CPU, in parallel with loading the main model's KV.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kv.chunk_cache import ChunkCache, TouchedNodes
from engine.model.rope import rerotate_keys
from engine.model.tokenizer import TokenizedText
from engine.prompt.template import MAX_QUERY_ROWS, PromptTemplate
from engine.scoring.align import align
from engine.scoring.inplace import InPlacePass
from engine.scoring.trained_selector import TokenSelector
from engine.types import ChunkKV, ScoreMode


@dataclass(frozen=True)
class AuxiliaryScorer:
    """Scores context tokens with the auxiliary model, or with a token selector in its place.

    cache     chunk KV of the auxiliary model
    template  prompt template of the auxiliary model
    selector  used for `ScoreMode.LEARNED`; without one, chunks are scored jointly
    """

    cache: ChunkCache
    template: PromptTemplate
    selector: TokenSelector | None = None

    def resolve_mode(self, mode: ScoreMode) -> ScoreMode:
        """Return the mode that is actually used: JOINT instead of LEARNED without a selector."""
        return ScoreMode.JOINT if mode is ScoreMode.LEARNED and self.selector is None else mode

    def uses_chunk_kv(self, mode: ScoreMode) -> bool:
        """Return whether scoring reads the auxiliary model's chunk KV."""
        return self.resolve_mode(mode) is not ScoreMode.LEARNED

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

        question       as the user wrote it
        texts          the passages, in prompt order
        primary        template of the main model, whose tokens are scored
        chunks         the passages' KV, if both models are the same and it is loaded
        touched_nodes  receives the tree nodes that were read, as in `ChunkCache.get_or_compute`

        Raises Cancelled once `cancel` is set.
        """
        if self.selector is not None and not self.uses_chunk_kv(mode):
            return self.selector.score(question, texts, [primary.passage(text) for text in texts], cancel)
        passages = [self.template.passage(text) for text in texts]
        chunks = chunks or [self.cache.get_or_compute(passage.ids, cancel, touched_nodes)[0] for passage in passages]
        if mode is ScoreMode.PER_CHUNK:
            scores = self.score_per_chunk(self.template.query_ids(question), chunks, cancel)
        else:
            scores = self.score_jointly(self.template.suffix_ids(question)[-MAX_QUERY_ROWS:], chunks, cancel)
        if primary.tokenizer.fingerprint == self.template.tokenizer.fingerprint:
            return torch.cat(scores)
        targets = (primary.passage(text) for text in texts)
        return torch.cat([_align(*each) for each in zip(scores, passages, targets, strict=True)])

    @torch.inference_mode()
    def score_per_chunk(
        self, query_ids: Sequence[int], chunks: Sequence[ChunkKV], cancel: Event | None = None
    ) -> list[Tensor]:
        """Return the last layer's attention to each chunk, scored independently in one batch, [tokens] each, fp32.

        Mean over heads and question tokens.
        """
        decoder, start = self.cache.decoder, self.cache.prefix.tokens
        chunks = [_rerotate_chunk(chunk, start, decoder.spec.inv_freq) for chunk in chunks]
        batch = _ChunkBatch(self.cache.prefix, chunks, len(query_ids), decoder.spec.num_layers - 1)
        decoder.forward(torch.tensor([query_ids] * len(chunks)), batch.positions, batch, cancel)
        return [row[: chunk.tokens] for row, chunk in zip(batch.scores, chunks, strict=True)]

    @torch.inference_mode()
    def score_jointly(
        self, query_ids: Sequence[int], chunks: Sequence[ChunkKV], cancel: Event | None = None
    ) -> list[Tensor]:
        """Return the attention to each chunk when all chunks are attended to at once, [tokens] each, fp32.

        Mean over heads and question tokens, sum over layers. Each layer is normalised over the context, so that all
        layers have one vote, however much attention goes to the prefix.
        """
        decoder, spec = self.cache.decoder, self.cache.decoder.spec
        joint = InPlacePass(self.cache.prefix, chunks, len(query_ids), spec.num_layers - 1, spec.inv_freq)
        decoder.forward(torch.tensor([query_ids]), joint.positions, joint, cancel)
        attention = joint.attention
        attention /= attention.sum(-1, keepdim=True)
        return list(attention.sum(0).split([chunk.tokens for chunk in chunks]))


def _align(scores: Tensor, source: TokenizedText, target: TokenizedText) -> Tensor:
    return torch.from_numpy(align(scores.numpy(), np.asarray(source.spans), np.asarray(target.spans)))


def _rerotate_chunk(chunk: ChunkKV, start: int, inv_freq: Tensor) -> ChunkKV:
    """Return a chunk with keys re-rotated to `start`; chunks of a path have later positions."""
    if chunk.start == start:
        return chunk
    return ChunkKV(rerotate_keys(chunk.keys, start - chunk.start, inv_freq), chunk.values, start)


class _ChunkBatch:
    """An `AttentionPass` with one batch row per chunk: prefix, chunk, padding, question.

    positions  of the question in each row, [B, Q]
    scores     [B, longest chunk], available after the last layer
    """

    def __init__(self, prefix: ChunkKV, chunks: Sequence[ChunkKV], num_query_tokens: int, last_layer: int) -> None:
        self._prefix = prefix
        self._chunks = chunks
        self._last_layer = last_layer
        query_start = prefix.tokens + max(chunk.tokens for chunk in chunks)
        self._query = slice(query_start, query_start + num_query_tokens)
        shape = (len(chunks), prefix.keys.shape[1], self._query.stop, prefix.keys.shape[3])
        self._keys = prefix.keys.new_zeros(shape)
        self._values = prefix.values.new_zeros(shape)
        ends = prefix.tokens + torch.tensor([chunk.tokens for chunk in chunks])
        self._mask = self._build_mask(ends)  # [B, 1, Q, N]
        self.positions = ends[:, None] + torch.arange(num_query_tokens)
        self.scores = torch.empty(0)

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        start = self._prefix.tokens
        for batch, fresh, name in ((self._keys, keys, "keys"), (self._values, values, "values")):
            batch[:, :, :start] = getattr(self._prefix, name)[layer]
            for row, chunk in enumerate(self._chunks):
                batch[row, :, start : start + chunk.tokens] = getattr(chunk, name)[layer]
            batch[:, :, self._query] = fresh
        return self._keys, self._values

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        batch, heads, rows, width = query.shape
        groups = heads // keys.shape[1]
        grouped = query.reshape(batch, keys.shape[1], groups * rows, width)  # all query heads of a KV head
        mask = self._mask.repeat(1, 1, groups, 1)
        if layer == self._last_layer:
            logits = grouped.float() @ keys.float().transpose(2, 3) * scaling + mask
            attention = logits.softmax(-1).mean(dim=(1, 2))  # over heads and question tokens: [B, N]
            self.scores = attention[:, self._prefix.tokens : self._query.start]
            return query  # the output of the last layer is not used
        mixed = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask.to(query.dtype), scale=scaling)
        return mixed.reshape(batch, heads, rows, width)

    def _build_mask(self, ends: Tensor) -> Tensor:
        """Return an additive mask that hides padding after each row's end [B] and later question tokens."""
        num_query_tokens = self._query.stop - self._query.start
        mask = torch.zeros(len(ends), 1, num_query_tokens, self._query.stop)
        is_padding = torch.arange(self._query.start) >= ends[:, None]
        mask[:, :, :, : self._query.start].masked_fill_(is_padding[:, None, None], float("-inf"))
        is_later = torch.ones(num_query_tokens, num_query_tokens, dtype=torch.bool).triu(1)
        mask[:, :, :, self._query].masked_fill_(is_later, float("-inf"))
        return mask
