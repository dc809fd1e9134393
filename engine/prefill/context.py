"""The inputs of one prompt's prefill, computed on first use and kept: ids, chunk KV, attention and scores."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Event
from zlib import crc32

import torch
from torch import Tensor

from engine.errors import Cancelled
from engine.fidelity import FidelityCurve
from engine.kv.chunk_cache import ChunkCache, ChunkSet, TouchedNodes, assemble, chunk_spans
from engine.model.kv_buffer import AttentionProbe, KVBuffer
from engine.prefill.compressed_view import compressed_view_attention
from engine.prompt.pack import PreparedPrompt
from engine.prompt.template import MAX_QUERY_ROWS, PromptTemplate
from engine.scoring.auxiliary import AuxiliaryScorer
from engine.trace import Trace
from engine.types import ChunkKV, Placement, ScoreMode, SelectionContext

POLL_S = 0.05  # interval at which a request that waits for scores checks whether it was cancelled


@dataclass(frozen=True, slots=True)
class ReferencePrefill:
    """A full prefill of a prompt."""

    buffer: KVBuffer
    logits: Tensor  # [V] of the first token
    attention: Tensor  # [L, context tokens] fp32: mean over heads and the last MAX_QUERY_ROWS rows of the question


@dataclass(eq=False)
class PromptContext:
    """Token ids, spans and KV of one prompt. Methods that are compared on a prompt share its context."""

    cache: ChunkCache
    template: PromptTemplate
    auxiliary: AuxiliaryScorer
    prepared: PreparedPrompt
    trace: Trace
    cancel: Event | None = None
    max_path_chunks: int | None = None
    fidelity: FidelityCurve | None = None

    def __post_init__(self) -> None:
        self._chunk_ids = self.prepared.passage_ids
        self._chunk_sets: dict[Placement, ChunkSet] = {}
        self._scores: dict[ScoreMode, Future[Tensor]] = {}
        self._view_attention: dict[tuple[float, int], Tensor] = {}
        self._closed = Event()
        self.touched_nodes: TouchedNodes = []  # tree nodes that were read, for `ChunkCache.record_hits`
        context_ids = (token for ids in self._chunk_ids for token in ids)
        self.ids = torch.tensor([*self.cache.prefix_ids, *context_ids, *self.prepared.suffix_ids])
        self.spans = chunk_spans(len(self.cache.prefix_ids), [len(ids) for ids in self._chunk_ids])  # slots
        self.query_rows = torch.arange(len(self.ids) - len(self.prepared.suffix_ids), len(self.ids))  # slots of suffix

    def new_buffer(self) -> KVBuffer:
        """Return an empty buffer with capacity for prompt and answer."""
        return self.cache.decoder.new_buffer(len(self.ids) + self.prepared.max_new_tokens)

    def chunk_set(self, placement: Placement) -> ChunkSet:
        """Return the chunks' KV as computed for a placement."""
        if placement not in self._chunk_sets:
            self._chunk_sets[placement] = self.cache.gather(
                self._chunk_ids, placement, self.cancel, self.max_path_chunks, self.touched_nodes
            )
        return self._chunk_sets[placement]

    def assemble(self, placement: Placement) -> KVBuffer:
        """Return a new buffer with the prefix and the chunks."""
        buffer = self.new_buffer()
        chunks = self.chunk_set(placement).chunks
        decoder = self.cache.decoder
        assemble(buffer, self.cache.prefix, chunks, decoder.spec.inv_freq, placement, decoder.layer_ops)
        return buffer

    def load(self, placement: Placement, score_mode: ScoreMode | None) -> ChunkSet:
        """Load the chunks' KV, and start scoring in parallel if `score_mode` is given.

        If both models are the same they share chunk KV, so it is loaded once, before scoring starts. Nothing is scored
        if every chunk is exact, for example a single passage.
        """
        if score_mode is None or not self.spans:
            return self.chunk_set(placement)
        shares_kv = self._shares_kv(score_mode)
        if not shares_kv and self._may_need_scores():
            self._start_scoring(score_mode, None)
        chunk_set = self.chunk_set(placement)
        if shares_kv and self._num_exact_chunks(placement) < len(chunk_set.chunks):
            self._start_scoring(score_mode, chunk_set.chunks)
        return chunk_set

    def scores(self, mode: ScoreMode) -> Tensor:
        """Return the auxiliary scores, [context tokens]; waits for them. Raises Cancelled."""
        if not self.spans:
            return torch.empty(0)
        shares_kv = self._shares_kv(mode)
        chunks = self.chunk_set(Placement.CONCATENATED).chunks if shares_kv else None
        future = self._start_scoring(mode, chunks)
        while not wait([future], POLL_S).done:
            if self.cancel is not None and self.cancel.is_set():
                self._closed.set()
                raise Cancelled
        return future.result()

    @property
    def question_attention(self) -> Tensor:
        """Attention of the question's rows over the assembled chunks, [L, context tokens]."""
        return self._question_probe[0]

    @property
    def question_attention_norm(self) -> Tensor:
        """L2 norm over the question's rows of their attention over the assembled chunks, [L, context tokens]."""
        return self._question_probe[1]

    def compressed_view_attention(self, anchor_ratio: float, layer: int) -> Tensor:
        """Return the question's attention in a layer after a compressed view of the context, [context tokens]."""
        key = (anchor_ratio, layer)
        if key not in self._view_attention:
            decoder, prefix = self.cache.decoder, self.cache.prefix
            chunks = self.chunk_set(Placement.CONCATENATED).chunks
            rows = self.query_rows[-MAX_QUERY_ROWS:]  # of a pasted text, its end
            with self.trace.stage("question"):
                self._view_attention[key] = compressed_view_attention(
                    decoder, prefix, chunks, self.ids[rows], rows, anchor_ratio, layer, self.cancel
                )
        return self._view_attention[key]

    @cached_property
    def reference(self) -> ReferencePrefill:
        """A full prefill of the same ids."""
        buffer = self.new_buffer()
        with self.trace.stage("full prefill"):
            attention, _, logits = self._probe_question(torch.arange(len(self.ids)), buffer)
        return ReferencePrefill(buffer, logits, attention)

    def selection_context(self, placement: Placement = Placement.CONCATENATED) -> SelectionContext:
        """Return the input of a strategy. Exact paths are known only after the chunks were loaded."""
        return SelectionContext(
            self.spans,
            per_chunk_scores=partial(self.scores, ScoreMode.PER_CHUNK),
            joint_scores=partial(self.scores, ScoreMode.JOINT),
            learned_scores=partial(self.scores, ScoreMode.LEARNED),
            question_attention=lambda: self.question_attention,
            oracle_attention=lambda: self.reference.attention[-1],
            question_attention_norm=lambda: self.question_attention_norm,
            compressed_view_attention=self.compressed_view_attention,
            num_exact_chunks=self._num_exact_chunks(placement),
            num_layers=self.cache.decoder.spec.num_layers,
            seed=crc32(self.ids.numpy().tobytes()),
            fidelity=self.fidelity,
            recompute_ms=self._recompute_ms,
            elapsed_ms=self.trace.now_ms,
        )

    def close(self) -> None:
        """Cancel scoring that is still running, and wait until it has ended."""
        self._closed.set()
        wait(self._scores.values())

    def _num_exact_chunks(self, placement: Placement) -> int:
        """Return how many leading chunks are exact: an exact path, and any first chunk unless it was quantized."""
        chunk_set = self._chunk_sets.get(placement)
        first = chunk_set.chunks[:1] if chunk_set else ()
        num_exact = 0 if placement is Placement.EXACT_PREFIX or any(kv.quantized for kv in first) else 1
        return max(num_exact, chunk_set.num_path_chunks) if chunk_set else num_exact

    def _recompute_ms(self, context_tokens: int) -> float:
        """Return the predicted time to recompute so many context tokens and the question; 0 without measured costs."""
        computed = context_tokens + len(self.query_rows)
        costs = self.cache.costs
        return 0.0 if costs is None else costs.estimate_ms(len(self.ids) - computed, computed)

    def _may_need_scores(self) -> bool:
        """Return whether some chunk is probably not exact; known for certain only after loading."""
        keys = self.cache.path_keys(self._chunk_ids)[: self.max_path_chunks]
        return len(self._chunk_ids) > max(1, len(self.cache.tree.match_prefix(keys)))

    def _shares_kv(self, mode: ScoreMode) -> bool:
        return self.auxiliary.cache is self.cache and self.auxiliary.resolve_mode(mode) is not ScoreMode.LEARNED

    def _start_scoring(self, mode: ScoreMode, chunks: Sequence[ChunkKV] | None) -> Future[Tensor]:
        """Start scoring on its own thread, in parallel with loading, unless that was done for this mode before."""

        def score() -> Tensor:
            texts, question = self.prepared.texts, self.prepared.standalone_question
            with self.trace.stage("auxiliary"):
                return self.auxiliary.score(
                    question, texts, self.template, mode, chunks, self._closed, self.touched_nodes
                )

        mode = self.auxiliary.resolve_mode(mode)
        if mode not in self._scores:
            executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="auxiliary")
            try:
                self._scores[mode] = executor.submit(score)
            finally:
                executor.shutdown(wait=False)  # the thread ends with its work, and its OpenMP threads with it
        return self._scores[mode]

    @cached_property
    def _question_probe(self) -> tuple[Tensor, Tensor, Tensor]:
        buffer = self.assemble(Placement.CONCATENATED)
        with self.trace.stage("question"):
            return self._probe_question(self.query_rows, buffer)

    def _probe_question(self, rows: Tensor, buffer: KVBuffer) -> tuple[Tensor, Tensor, Tensor]:
        """Compute KV for `rows`, the question's among them.

        Returns the question's attention and its norm over the rows, [L, context tokens] each, and logits [V].
        """
        decoder = self.cache.decoder
        context = slice(len(self.cache.prefix_ids), int(self.query_rows[0]))
        probe = AttentionProbe(buffer, rows, min(len(self.query_rows), MAX_QUERY_ROWS))  # of a pasted text, its end
        hidden = decoder.forward(self.ids[rows][None], rows[None], probe, self.cancel)
        attention = probe.attention[:, :, context].mean(1)
        return attention, probe.attention_norm[:, context], decoder.logits(hidden[0, -1])
