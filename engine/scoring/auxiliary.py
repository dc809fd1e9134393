"""The auxiliary model's view of each chunk: which tokens does this question look at?

The auxiliary has KV of its own for every (prefix + chunk). Only the question's tokens are run. As the paper has it,
each chunk is read apart, all as one batch, and the score of a context token is the mean over heads and question tokens
of the last layer's attention on it, the shared prefix left out. The paper finetunes its auxiliary for that, by a recipe
that it does not give; here it is a model as it comes, or the reader itself. Ours reads all chunks together, and every
layer has a vote. A trained selector, a model of its own, takes the auxiliary's place where there is one. Runs on the
CPU, while the primary's KV is loaded. Source: CacheClip, arXiv:2510.10129.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kv.chunk_cache import ChunkCache, TouchedNodes
from engine.model.rope import move_keys
from engine.model.tokenizer import Encoded
from engine.prompt.template import MAX_QUERY_ROWS, Prompt
from engine.scoring.align import align
from engine.scoring.inplace import InPlacePass
from engine.scoring.trained_selector import TokenSelector
from engine.types import ChunkKV, ScoreMode


@dataclass(frozen=True)
class AuxiliaryScorer:
    """A scorer: its own model, tokenizer and chunk KV.

    selector  what scores in its place where a strategy asks for that; None: it scores itself, joined
    """

    cache: ChunkCache
    prompt: Prompt
    selector: TokenSelector | None = None

    def way(self, scoring: ScoreMode) -> ScoreMode:
        """Return how it is scored really: without a selector, all chunks together."""
        return ScoreMode.JOINT if scoring is ScoreMode.LEARNED and self.selector is None else scoring

    def reads_kv(self, scoring: ScoreMode) -> bool:
        """Whether this way of scoring reads the auxiliary's chunk KV."""
        return self.way(scoring) is not ScoreMode.LEARNED

    def score(
        self,
        question: str,
        texts: Sequence[str],
        primary: Prompt,
        scoring: ScoreMode = ScoreMode.PER_CHUNK,
        chunks: Sequence[ChunkKV] | None = None,
        cancel: Event | None = None,
        uses: TouchedNodes | None = None,
    ) -> Tensor:
        """Return the score of each of the primary's context tokens, [sum of tokens of the texts], fp32.

        question  as the person wrote it
        texts     the passages, in prompt order
        primary   whose tokens the scores are carried to, by the characters they share
        scoring   whether each chunk is read apart, or all are read together
        chunks    the texts' KV where the caller holds it already: both models are the same
        uses      takes the nodes that were read, as in `ChunkCache.get`
        """
        if self.selector is not None and not self.reads_kv(scoring):
            return self.selector.score(question, texts, [primary.passage(text) for text in texts], cancel)
        passages = [self.prompt.passage(text) for text in texts]
        chunks = chunks or [self.cache.get(passage.ids, cancel, uses)[0] for passage in passages]
        if scoring is ScoreMode.PER_CHUNK:
            scores = self.attention(self.prompt.asked(question), chunks, cancel)
        else:
            scores = self.joined(self.prompt.question(question)[-MAX_QUERY_ROWS:], chunks, cancel)
        if primary.tokens.fingerprint == self.prompt.tokens.fingerprint:
            return torch.cat(scores)
        pairs = zip(scores, passages, (primary.passage(text) for text in texts), strict=True)
        return torch.cat([_carried(score, source, target) for score, source, target in pairs])

    @torch.inference_mode()
    def attention(
        self, question: Sequence[int], chunks: Sequence[ChunkKV], cancel: Event | None = None
    ) -> list[Tensor]:
        """Return the attention that the question pays to each chunk's tokens, [tokens] each, fp32."""
        decoder, start = self.cache.decoder, self.cache.prefix.tokens
        chunks = [_behind(chunk, start, decoder.spec.inv_freq) for chunk in chunks]
        batch = _Batch(self.cache.prefix, chunks, len(question), decoder.spec.layers - 1)
        ids = torch.tensor([question] * len(chunks))
        decoder.forward(ids, batch.positions, batch, cancel)
        return [row[: chunk.tokens] for row, chunk in zip(batch.scores, chunks, strict=True)]

    @torch.inference_mode()
    def joined(self, question: Sequence[int], chunks: Sequence[ChunkKV], cancel: Event | None = None) -> list[Tensor]:
        """Return the attention that the question pays to each chunk's tokens when all are read together, [tokens] each.

        Mean over heads and question tokens; in each layer the context's share is made 1, so that every layer has one
        vote however much of it goes to the prefix; then the sum over layers, fp32.
        """
        decoder = self.cache.decoder
        watched = InPlacePass(self.cache.prefix, chunks, len(question), decoder.spec.layers - 1, decoder.spec.inv_freq)
        decoder.forward(torch.tensor([question]), watched.positions, watched, cancel)
        paid, lengths = watched.attention, [chunk.tokens for chunk in chunks]
        return list((paid / paid.sum(-1, keepdim=True)).sum(0).split(lengths))


def _carried(scores: Tensor, source: Encoded, target: Encoded) -> Tensor:
    return torch.from_numpy(align(scores.numpy(), np.asarray(source.spans), np.asarray(target.spans)))


def _behind(chunk: ChunkKV, start: int, inv_freq: Tensor) -> ChunkKV:
    """Return a chunk as if nothing but the shared prefix stood before it: one of a path stands further on."""
    if chunk.start == start:
        return chunk
    return ChunkKV(move_keys(chunk.keys, start - chunk.start, inv_freq), chunk.values, start)


class _Batch:
    """One row of the batch per chunk: prefix, chunk, padding, question. A `Reader`.

    scores  [B, longest chunk], known once the last layer has run
    """

    def __init__(self, prefix: ChunkKV, chunks: Sequence[ChunkKV], questions: int, last_layer: int) -> None:
        self._prefix, self._chunks, self._last_layer = prefix, chunks, last_layer
        self._longest = max(chunk.tokens for chunk in chunks)
        heads, width = prefix.keys.shape[1], prefix.keys.shape[3]
        self._asked = slice(prefix.tokens + self._longest, prefix.tokens + self._longest + questions)
        shape = (len(chunks), heads, self._asked.stop, width)
        self._keys, self._values = prefix.keys.new_zeros(shape), prefix.values.new_zeros(shape)
        ends = prefix.tokens + torch.tensor([chunk.tokens for chunk in chunks])
        self.positions = ends[:, None] + torch.arange(questions)  # [B, Q]
        self._mask = self._visibility(ends, questions)  # [B, 1, Q, N]
        self.scores = torch.empty(0)

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        start = self._prefix.tokens
        for held, fresh, kind in ((self._keys, keys, "keys"), (self._values, values, "values")):
            held[:, :, :start] = getattr(self._prefix, kind)[layer]
            for row, chunk in enumerate(self._chunks):
                held[row, :, start : start + chunk.tokens] = getattr(chunk, kind)[layer]
            held[:, :, self._asked] = fresh
        return self._keys, self._values

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        batch, heads, rows, width = query.shape
        groups = heads // keys.shape[1]
        folded = query.reshape(batch, keys.shape[1], groups * rows, width)  # a key head serves its query heads at once
        mask = self._mask.repeat(1, 1, groups, 1)
        if layer == self._last_layer:
            logits = folded.float() @ keys.float().transpose(2, 3) * scaling + mask
            seen = logits.softmax(-1).mean(dim=(1, 2))  # over heads and question tokens: [B, N]
            self.scores = seen[:, self._prefix.tokens : self._asked.start]
            return query  # nobody reads what comes after the last attention
        mixed = F.scaled_dot_product_attention(folded, keys, values, attn_mask=mask.to(query.dtype), scale=scaling)
        return mixed.reshape(batch, heads, rows, width)

    def _visibility(self, ends: Tensor, questions: int) -> Tensor:
        mask = torch.zeros(len(ends), 1, questions, self._asked.stop)
        slots = torch.arange(self._asked.start)
        mask[:, :, :, : self._asked.start].masked_fill_((slots >= ends[:, None])[:, None, None], float("-inf"))
        later = torch.ones(questions, questions, dtype=torch.bool).triu(1)
        mask[:, :, :, self._asked].masked_fill_(later, float("-inf"))
        return mask
