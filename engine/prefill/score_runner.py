"""Run the auxiliary model on its own thread, in parallel with loading the main model's KV."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event

from torch import Tensor

from engine.errors import Cancelled
from engine.kv.chunk_cache import TouchedNodes
from engine.prompt.pack import PreparedPrompt
from engine.prompt.template import PromptTemplate
from engine.scoring.auxiliary import AuxiliaryScorer
from engine.trace import Trace
from engine.types import ChunkKV, ScoreMode

POLL_S = 0.05


@dataclass
class ScoreRunner:
    """Scores the passages of one prompt, once for each mode.

    template       of the main model, whose tokens are scored
    touched_nodes  receives the tree nodes that scoring reads
    cancel         ends waiting, and then scoring
    """

    scorer: AuxiliaryScorer
    template: PromptTemplate
    prepared: PreparedPrompt
    trace: Trace
    touched_nodes: TouchedNodes
    cancel: Event | None = None
    _futures: dict[ScoreMode, Future[Tensor]] = field(default_factory=dict)
    _closed: Event = field(default_factory=Event)

    def is_started(self, mode: ScoreMode) -> bool:
        return self.scorer.resolve_mode(mode) in self._futures

    def start(self, mode: ScoreMode, chunks: Sequence[ChunkKV] | None = None) -> None:
        """Start scoring, unless this mode is already started.

        chunks  the passages' KV, if the auxiliary model is the main model
        """
        if self.is_started(mode):
            return
        mode = self.scorer.resolve_mode(mode)
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="auxiliary")
        try:
            self._futures[mode] = executor.submit(self._score, mode, chunks)
        finally:
            executor.shutdown(wait=False)  # the thread ends with its work, and its OpenMP threads with it

    def result(self, mode: ScoreMode) -> Tensor:
        """Wait for the scores of a started mode, [context tokens]. Raises Cancelled once `cancel` is set."""
        future = self._futures[self.scorer.resolve_mode(mode)]
        while not wait([future], POLL_S).done:
            if self.cancel is not None and self.cancel.is_set():
                self._closed.set()
                raise Cancelled
        return future.result()

    def close(self) -> None:
        """Cancel scoring that is still running, and wait until it has ended."""
        self._closed.set()
        wait(self._futures.values())

    def _score(self, mode: ScoreMode, chunks: Sequence[ChunkKV] | None) -> Tensor:
        with self.trace.stage("auxiliary"):
            return self.scorer.score(
                self.prepared.standalone_question,
                self.prepared.texts,
                self.template,
                mode,
                chunks,
                self._closed,
                self.touched_nodes,
            )
