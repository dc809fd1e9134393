"""Start the prefill on provisional hits while later stages of the retrieval are still running.

The last stage often changes nothing. So the prefill for the hits so far runs beside it if the model is idle. It becomes
the request's own if the final hits agree; it is cancelled as soon as they differ or another request arrives. Chunks
that were computed by then stay cached. Source: RAGCache, arXiv:2404.12457, section 5.3 (dynamic speculative
pipelining).
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Generic, TypeVar

from engine.errors import Cancelled
from engine.scheduler.scheduler import Scheduler
from engine.trace import Trace

Hits = TypeVar("Hits")
Result = TypeVar("Result")
EMA_WEIGHT = 0.3  # of the newest retrieval in the moving average of stage times
JOIN_S = 0.02  # interval at which a waiting request checks whether it was cancelled
MIN_REMAINING_MS = 20.0  # expected time until the final hits below which speculation is not worth a thread


@dataclass(eq=False)
class SpeculativePrefill(Generic[Hits, Result]):
    """Work on provisional hits in its own thread, with its own trace.

    The thread calls `release` if the work ends before it was promoted: no new request waits for the retrieval.
    """

    hits: Hits
    work: Callable[[Hits, Trace, Event], Result]
    trace: Trace
    stop: Event
    promote: Callable[[], bool]  # makes the idle grant the request's own; returns False if another request wants it
    release: Callable[[], None]  # gives the model back
    accepted: bool = False  # whether the request now holds the model

    def __post_init__(self) -> None:
        self._is_recorded = False  # in the trace
        self._branch = self.trace.branch()
        self._lock = Lock()
        self._future: Future[Result] = Future()
        self._start_ms = self.trace.now_ms()
        self._thread = Thread(target=self._run, name="speculation", daemon=True)
        self._thread.start()

    def accept(self) -> bool:
        """Take over the model if possible; return whether the work has run to its own end, or will."""
        with self._lock:
            self.accepted = self.promote()
        if self.accepted or not self._future.done():
            return self.accepted
        return self._future.exception() is None or not self.stop.is_set()

    def close(self) -> None:
        """Cancel the work and wait for its thread. If the result was not used, the trace shows only the attempt."""
        self.stop.set()
        self._thread.join()
        if not self._is_recorded:
            self._is_recorded = True
            self.trace.add("speculation cancelled", self._start_ms)

    @property
    def is_done(self) -> bool:
        """Whether the work has ended, so that its result is there at once."""
        return self._future.done()

    def result(self, cancel: Event) -> Result:
        """Wait for the result and add the stages of the work to the request's trace; raise what the work raised."""
        self._is_recorded = True
        while self._thread.is_alive():
            self._thread.join(JOIN_S)
            if cancel.is_set():
                self.stop.set()
        self.trace.add("speculation", self._start_ms)
        self.trace.stages += self._branch.stages
        return self._future.result()

    def _run(self) -> None:
        try:
            self._future.set_result(self.work(self.hits, self._branch, self.stop))
        except BaseException as error:  # noqa: BLE001  raised again by `result`
            self._future.set_exception(error)
        finally:
            with self._lock:
                if not self.accepted:
                    self.release()


@dataclass(eq=False)
class Speculator(Generic[Hits, Result]):
    """Learns how long retrieval stages take, and speculates if there is time to gain."""

    scheduler: Scheduler
    is_same_prompt: Callable[[Hits, Hits], bool]  # whether work on the first hits is valid for the second
    min_remaining_ms: float = MIN_REMAINING_MS
    _remaining_ms: list[float] = field(default_factory=list)  # by stage: expected time until the retrieval ends

    def run(
        self,
        stages: Iterator[Hits],
        work: Callable[[Hits, Trace, Event], Result],
        trace: Trace,
        grant: ExitStack,
        cancel: Event,
    ) -> tuple[Hits, SpeculativePrefill[Hits, Result] | None]:
        """Run a retrieval to its end; return the final hits, and the speculation that agrees with them, if any.

        `work` ends soon after its event is set. `grant` holds the model for an accepted speculation; closing it ends
        the speculation. Raises Cancelled once `cancel` is set.
        """
        speculation: SpeculativePrefill[Hits, Result] | None = None
        times_ms = list[float]()
        for stage, hits in enumerate(stages):
            times_ms.append(trace.now_ms())
            if cancel.is_set():
                raise Cancelled
            if speculation is not None and not self.is_same_prompt(speculation.hits, hits):
                grant.close()
                speculation = None
            remaining_ms = self._remaining_ms  # another request may replace the list
            expected_ms = remaining_ms[stage] if stage < len(remaining_ms) else 0.0
            if speculation is None and expected_ms >= self.min_remaining_ms:
                stop = Event()
                idle = grant.enter_context(ExitStack())
                promote = idle.enter_context(self.scheduler.try_acquire_idle(stop))
                if promote:
                    speculation = SpeculativePrefill(hits, work, trace, stop, promote, idle.close)
                    grant.callback(speculation.close)
        self._learn(times_ms)
        if speculation is not None and not speculation.accept():
            grant.close()
            speculation = None
        return hits, speculation

    def _learn(self, times_ms: list[float]) -> None:
        measured = [times_ms[-1] - time_ms for time_ms in times_ms]
        expected = self._remaining_ms  # another request may replace the list
        if len(expected) != len(measured):
            expected = measured
        self._remaining_ms = [old + EMA_WEIGHT * (new - old) for old, new in zip(expected, measured, strict=True)]
