"""The inputs of one prompt's prefill, computed on first use and kept: ids, chunk KV, attention and scores.

Each request has its own context. The bench shares one among all methods compared on a question, so that all of them
get the same inputs and nothing is computed twice.
"""

from functools import cached_property, partial
from threading import Event
from zlib import crc32

import torch
from torch import Tensor

from engine.kv.assemble import assemble, chunk_spans
from engine.kv.chunk_cache import ChunkCache, ChunkSet, TouchedNodes
from engine.model.kv_buffer import KVBuffer
from engine.prefill.reference import ReferencePrefill, probe_question, reference_prefill
from engine.prefill.score_runner import ScoreRunner
from engine.prompt.pack import PreparedPrompt
from engine.prompt.template import PromptTemplate
from engine.scoring.auxiliary import AuxiliaryScorer
from engine.trace import Trace
from engine.types import Placement, ScoreMode, SelectionContext


class PromptContext:
    """Token ids, spans and KV of one prompt.

    cache            chunk KV of the main model
    template         of the main model
    auxiliary        None if no strategy needs its scores
    max_path_chunks  chunks of an exact path that may be used; 1 ignores KV inserted by earlier answers, None uses all

    ids            [prompt tokens] prefix, chunks, suffix
    spans          slots of each chunk
    query_rows     slots of the suffix, [Q]
    touched_nodes  tree nodes that were read; the caller records hits if an answer was generated from them
    """

    def __init__(
        self,
        cache: ChunkCache,
        template: PromptTemplate,
        auxiliary: AuxiliaryScorer | None,
        prepared: PreparedPrompt,
        trace: Trace,
        cancel: Event | None = None,
        max_path_chunks: int | None = None,
    ) -> None:
        self._cache = cache
        self._max_new_tokens = prepared.max_new_tokens
        self._trace = trace
        self._cancel = cancel
        self._max_path_chunks = max_path_chunks
        self._chunk_ids = prepared.passage_ids
        self._chunk_sets: dict[Placement, ChunkSet] = {}
        self.touched_nodes: TouchedNodes = []
        self._runner: ScoreRunner | None = None
        if auxiliary is not None and prepared.texts:
            self._runner = ScoreRunner(auxiliary, template, prepared, trace, self.touched_nodes, cancel)
        context_ids = (token for ids in self._chunk_ids for token in ids)
        self.ids = torch.tensor([*cache.prefix_ids, *context_ids, *prepared.suffix_ids])
        self.spans = chunk_spans(len(cache.prefix_ids), [len(ids) for ids in self._chunk_ids])
        self.query_rows = torch.arange(len(self.ids) - len(prepared.suffix_ids), len(self.ids))

    def new_buffer(self) -> KVBuffer:
        """Return an empty buffer with capacity for prompt and answer."""
        return self._cache.decoder.new_buffer(len(self.ids) + self._max_new_tokens)

    def chunk_set(self, placement: Placement) -> ChunkSet:
        """Return the chunks' KV as computed for a placement."""
        if placement not in self._chunk_sets:
            self._chunk_sets[placement] = self._gather(placement)
        return self._chunk_sets[placement]

    def assemble(self, placement: Placement) -> KVBuffer:
        """Return a new buffer with the prefix and the chunks."""
        buffer = self.new_buffer()
        chunks = self.chunk_set(placement).chunks
        assemble(buffer, self._cache.prefix, chunks, self._cache.decoder.spec.inv_freq, placement)
        return buffer

    def load(self, placement: Placement, score_mode: ScoreMode | None) -> ChunkSet:
        """Load the chunks' KV, and start scoring in parallel if `score_mode` is given.

        If both models are the same they share chunk KV, so it is loaded once, before scoring starts. Nothing is scored
        if every chunk is exact, for example a single passage.
        """
        runner = self._runner
        if runner is None or score_mode is None:
            return self.chunk_set(placement)
        shares_kv = self._shares_kv(runner, score_mode)
        if not shares_kv and self._may_need_scores():
            runner.start(score_mode)
        chunk_set = self.chunk_set(placement)
        if shares_kv and self._num_exact_chunks(placement) < len(chunk_set.chunks):
            runner.start(score_mode, chunk_set.chunks)
        return chunk_set

    def scores(self, mode: ScoreMode) -> Tensor:
        """Return the auxiliary scores, [context tokens]; waits for them. Raises Cancelled."""
        runner = self._runner
        if runner is None:
            return torch.empty(0)
        if not runner.is_started(mode):
            shares_kv = self._shares_kv(runner, mode)
            runner.start(mode, self.chunk_set(Placement.CONCATENATED).chunks if shares_kv else None)
        return runner.result(mode)

    @cached_property
    def question_attention(self) -> Tensor:
        """Attention of the question's rows over the assembled chunks, [L, context tokens]."""
        buffer = self.assemble(Placement.CONCATENATED)
        with self._trace.stage("question"):
            attention, _ = probe_question(
                self._cache.decoder, self.ids, self.query_rows, self._context, buffer, self._cancel
            )
        return attention

    @cached_property
    def reference(self) -> ReferencePrefill:
        """A full prefill of the same ids."""
        buffer = self.new_buffer()
        with self._trace.stage("full prefill"):
            return reference_prefill(self._cache.decoder, self.ids, self._context, buffer, self._cancel)

    def selection_context(self, placement: Placement = Placement.CONCATENATED) -> SelectionContext:
        """Return the input of a strategy. Exact paths are known only after the chunks were loaded."""
        return SelectionContext(
            self.spans,
            per_chunk_scores=partial(self.scores, ScoreMode.PER_CHUNK),
            joint_scores=partial(self.scores, ScoreMode.JOINT),
            learned_scores=partial(self.scores, ScoreMode.LEARNED),
            question_attention=lambda: self.question_attention,
            oracle_attention=lambda: self.reference.attention[-1],
            num_exact_chunks=self._num_exact_chunks(placement),
            num_layers=self._cache.decoder.spec.num_layers,
            seed=crc32(self.ids.numpy().tobytes()),
        )

    def close(self) -> None:
        """Cancel scoring that is still running, and wait until it has ended."""
        if self._runner is not None:
            self._runner.close()

    @property
    def _context(self) -> slice:
        """Slots of all chunks."""
        return slice(len(self._cache.prefix_ids), int(self.query_rows[0]))

    def _gather(self, placement: Placement) -> ChunkSet:
        if placement is Placement.CONCATENATED:
            return self._cache.gather(self._chunk_ids, self._cancel, self._max_path_chunks, self.touched_nodes)
        if placement is Placement.EXACT_PREFIX:
            return self._cache.match_prefix(self._chunk_ids, self._max_path_chunks, self.touched_nodes)
        cache = self._cache.without_prefix if placement is Placement.NO_PREFIX else self._cache
        return cache.gather(self._chunk_ids, self._cancel, 0, self.touched_nodes)

    def _num_exact_chunks(self, placement: Placement) -> int:
        """Return how many leading chunks are exact: an exact path, and any first chunk unless it was quantized."""
        chunk_set = self._chunk_sets.get(placement)
        first = chunk_set.chunks[:1] if chunk_set else ()
        num_exact = 0 if placement is Placement.EXACT_PREFIX or any(kv.quantized for kv in first) else 1
        return max(num_exact, chunk_set.num_path_chunks) if chunk_set else num_exact

    def _may_need_scores(self) -> bool:
        """Return whether some chunk is probably not exact; known for certain only after loading."""
        keys = self._cache.path_keys(self._chunk_ids)[: self._max_path_chunks]
        return len(self._chunk_ids) > max(1, len(self._cache.tree.match_prefix(keys)))

    def _shares_kv(self, runner: ScoreRunner, mode: ScoreMode) -> bool:
        return runner.scorer.cache is self._cache and runner.scorer.uses_chunk_kv(mode)
