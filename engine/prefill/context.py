"""One prompt on the table: its tokens, its chunks' KV, and whatever a strategy may want to look at.

Each part is computed when it is first asked for, and kept. The page makes one for every question; the bench shares one
among all methods that it compares on a question, so that they see the same and nothing is computed twice.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from threading import Event
from zlib import crc32

import torch
from torch import Tensor

from engine.errors import Cancelled
from engine.kv.assemble import assemble, layout
from engine.kv.chunk_cache import ChunkCache, ChunkSet, TouchedNodes
from engine.model.kv_buffer import AttentionProbe, KVBuffer
from engine.prompt.builder import PreparedPrompt
from engine.prompt.template import MAX_QUERY_ROWS, Prompt
from engine.scoring.auxiliary import AuxiliaryScorer
from engine.trace import Trace
from engine.types import ChunkKV, Placement, ScoreMode, SelectionContext

POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class ReferencePrefill:
    """A full prefill that was watched.

    logits     [V] of the first token
    attention  [L, context tokens] of the question's rows, the last 256 at most; mean over heads and rows, fp32
    """

    buffer: KVBuffer
    logits: Tensor
    attention: Tensor


class PromptContext:
    """What is known of one reading.

    cache      the primary's chunk KV
    prompt     of the primary
    auxiliary  None where nothing asks for its scores
    longest    chunks of an exact path that may be used; 1 leaves aside what earlier answers left in the tree

    `uses` has the nodes that were read; they are counted only where an answer was made of them.
    """

    def __init__(
        self,
        cache: ChunkCache,
        prompt: Prompt,
        auxiliary: AuxiliaryScorer | None,
        reading: PreparedPrompt,
        trace: Trace,
        cancel: Event | None = None,
        longest: int | None = None,
    ) -> None:
        self._longest = longest
        self._cache, self._prompt, self._auxiliary, self._reading = cache, prompt, auxiliary, reading
        self._trace, self._cancel, self._closed = trace, cancel, Event()
        self._chunks: dict[Placement, ChunkSet] = {}
        self.touched_nodes: TouchedNodes = []
        self._scores: dict[ScoreMode, Future[Tensor]] = {}
        passages = (token for chunk in reading.passages for token in chunk.ids)
        self.ids = torch.tensor([*cache.prefix_ids, *passages, *reading.suffix_ids])
        self.spans = layout(len(cache.prefix_ids), [len(chunk.ids) for chunk in reading.passages])
        self.query_rows = torch.arange(len(self.ids) - len(reading.suffix_ids), len(self.ids))

    def buffer(self) -> KVBuffer:
        """Return an empty buffer with room for prompt and answer."""
        return self._cache.decoder.buffer(len(self.ids) + self._reading.max_new_tokens)

    def chunks(self, placement: Placement) -> ChunkSet:
        """Return the chunks' KV as the placement wants it."""
        if placement not in self._chunks:
            ids = [chunk.ids for chunk in self._reading.passages]
            if placement is Placement.CONCATENATED:
                self._chunks[placement] = self._cache.gather(ids, self._cancel, self._longest, self.touched_nodes)
            elif placement is Placement.EXACT_PREFIX:
                self._chunks[placement] = self._cache.match_prefix(ids, self._longest, self.touched_nodes)
            else:
                cache = self._cache.without_prefix if placement is Placement.NO_PREFIX else self._cache
                held = [cache.get(chunk, self._cancel, self.touched_nodes) for chunk in ids]
                self._chunks[placement] = ChunkSet(tuple(kv for kv, _ in held), tuple(tier for _, tier in held), 0)
        return self._chunks[placement]

    def assemble(self, placement: Placement) -> KVBuffer:
        """Return a buffer with prefix and chunks in their places."""
        buffer = self.buffer()
        held = self.chunks(placement).chunks
        assemble(buffer, self._cache.prefix, held, self._cache.decoder.spec.inv_freq, placement)
        return buffer

    def selection_context(self, placement: Placement = Placement.CONCATENATED) -> SelectionContext:
        """Return what a strategy may look at; the exact path is known once the chunks are loaded."""
        held = self._chunks.get(placement)
        rounded = held is not None and any(kv.quantized for kv in held.chunks[:1])
        least = (
            0 if rounded or placement is Placement.EXACT_PREFIX else 1
        )  # joined, the first chunk is exact wherever found
        return SelectionContext(
            self.spans,
            per_chunk_scores=lambda: self.scores(ScoreMode.PER_CHUNK),
            joint_scores=lambda: self.scores(ScoreMode.JOINT),
            learned_scores=lambda: self.scores(ScoreMode.LEARNED),
            attention=lambda: self.attention,
            oracle_attention=lambda: self.reference.attention[-1],
            num_exact_chunks=max(least, held.exact) if held else least,
            num_layers=self._cache.decoder.spec.layers,
            seed=crc32(self.ids.numpy().tobytes()),
        )

    def load(self, placement: Placement, scoring: ScoreMode | None) -> ChunkSet:
        """Bring the chunks' KV to the model, and start scoring beside it if asked.

        Where both models are one they share chunk KV, so that it is loaded once, before it is scored. Where all of it
        is exact, a single passage's for one, nothing is left to score.
        """
        auxiliary = self._auxiliary if self._reading.texts else None
        shared = auxiliary is not None and scoring is not None and self._shares(auxiliary, scoring)
        if auxiliary is not None and scoring is not None and not shared and self._is_work():
            self._start(auxiliary, scoring, None)
        held = self.chunks(placement)
        exact = held.exact if any(kv.quantized for kv in held.chunks[:1]) else max(1, held.exact)
        if auxiliary is not None and scoring is not None and shared and exact < len(held.chunks):
            self._start(auxiliary, scoring, held.chunks)
        return held

    def scores(self, scoring: ScoreMode) -> Tensor:
        """Return the auxiliary model's scores, [context tokens]; waits for them. Raises Cancelled once that is set."""
        auxiliary = self._auxiliary if self._reading.texts else None
        scoring = scoring if auxiliary is None else auxiliary.way(scoring)
        if scoring not in self._scores and auxiliary is not None:
            shared = self._shares(auxiliary, scoring)
            self._start(auxiliary, scoring, self.chunks(Placement.CONCATENATED).chunks if shared else None)
        if scoring not in self._scores:
            return torch.empty(0)
        while not wait([self._scores[scoring]], POLL_S).done:
            if self._cancel is not None and self._cancel.is_set():
                self._closed.set()
                raise Cancelled
        return self._scores[scoring].result()

    def _is_work(self) -> bool:
        """Whether it looks as if some passage's KV will not be exact; the loading tells for sure."""
        ids = [chunk.ids for chunk in self._reading.passages]
        return len(ids) > max(1, len(self._cache.tree.match_prefix(self._cache.keys(ids)[: self._longest])))

    def _shares(self, auxiliary: AuxiliaryScorer, scoring: ScoreMode) -> bool:
        return auxiliary.cache is self._cache and auxiliary.reads_kv(scoring)

    def _start(self, auxiliary: AuxiliaryScorer, scoring: ScoreMode, chunks: Sequence[ChunkKV] | None) -> None:
        scoring = auxiliary.way(scoring)
        if scoring in self._scores:
            return
        reading = self._reading

        def score() -> Tensor:
            with self._trace.stage("auxiliary"):
                return auxiliary.score(
                    reading.standalone_question,
                    reading.texts,
                    self._prompt,
                    scoring,
                    chunks,
                    self._closed,
                    self.touched_nodes,
                )

        with_its_own_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="auxiliary")
        try:
            self._scores[scoring] = with_its_own_thread.submit(score)
        finally:
            with_its_own_thread.shutdown(wait=False)  # the thread ends with the work, and its OpenMP team with it

    def close(self) -> None:
        """End scoring that nobody waits for, and wait until it has ended."""
        self._closed.set()
        wait(self._scores.values())

    @cached_property
    def attention(self) -> Tensor:
        """What the question attends to over the assembled chunks, [L, context tokens]."""
        buffer = self.assemble(Placement.CONCATENATED)
        with self._trace.stage("question"):
            return self._watch(buffer, self.query_rows)[0]

    @cached_property
    def reference(self) -> ReferencePrefill:
        """The full prefill of the same tokens, and what its question rows attend to."""
        buffer = self.buffer()
        with self._trace.stage("full prefill"):
            attention, logits = self._watch(buffer, torch.arange(len(self.ids)))
        return ReferencePrefill(buffer, logits, attention)

    def _watch(self, buffer: KVBuffer, rows: Tensor) -> tuple[Tensor, Tensor]:
        decoder = self._cache.decoder
        asked = min(len(self.query_rows), MAX_QUERY_ROWS)  # of a pasted text, the end: what it asks stands there
        watched = AttentionProbe(buffer, rows, asked)
        hidden = decoder.forward(self.ids[rows][None], rows[None], watched, self._cancel)
        context = slice(len(self._cache.prefix_ids), int(self.query_rows[0]))
        return watched.attention[:, :, context].mean(1), decoder.logits(hidden[0, -1])
