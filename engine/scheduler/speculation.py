"""Begin with provisional hits while later stages of the search still run.

Search comes in stages, and most often the last one changes nothing. So the work for the hits so far starts beside it,
if nobody else wants the model; it goes on as the request's own when the final hits agree, and is cancelled as soon as
they differ, or somebody comes. A chunk that it has computed whole by then stays, as if it had been prepared.
Source: RAGCache, arXiv:2404.12457, section 5.3 (dynamic speculative pipelining).
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Generic, TypeVar

from engine.errors import Cancelled
from engine.scheduler.scheduler import Scheduler
from engine.trace import Trace

Found = TypeVar("Found")
Result = TypeVar("Result")
LEARNING = 0.3  # weight of the newest search in what is expected of the next


@dataclass(frozen=True)
class SpeculationConfig:
    """least_ms  that the rest of a search must be expected to take; less is not worth a thread."""

    least_ms: float = 20.0


class SpeculativePrefill(Generic[Found, Result]):
    """Work on provisional hits, in a thread of its own, with a trace of its own.

    keep     makes the turn that the work is done in the request's own; False if somebody else wants the model
    release  gives the model back; called by the thread itself when its work has ended and the turn was not kept, so
             that a newcomer need not wait for the search that goes on

    `kept` says whether the request holds the turn.
    """

    def __init__(
        self,
        found: Found,
        work: Callable[[Found, Trace, Event], Result],
        trace: Trace,
        stop: Event,
        keep: Callable[[], bool],
        release: Callable[[], None],
    ) -> None:
        self.found, self._trace, self._branch, self._stop = found, trace, trace.branch(), stop
        self._keep, self._release, self._lock, self.accepted = keep, release, Lock(), False
        self._begin_ms, self._done, self._error = trace.now_ms(), list[Result](), list[BaseException]()
        self._thread = Thread(target=self._run, args=(work,), name="speculation", daemon=True)
        self._thread.start()

    def holds(self) -> bool:
        """Keep the turn if it can be kept; return whether the work has come to its own end, or will."""
        with self._lock:
            self.accepted = self._keep()
        return self.accepted or bool(self._done) or (bool(self._error) and not self._stop.is_set())

    def end(self) -> None:
        """Stop, and wait until it has stopped; nothing happens if it has ended."""
        self._stop.set()
        self._thread.join()

    def cancel(self) -> None:
        """End, and leave nothing in the trace but that it was tried."""
        self.end()
        self._trace.add("speculation cancelled", self._begin_ms)

    def result(self, cancel: Event) -> Result:
        """Wait for the work and return what came of it; its stages become the request's. Raises what it raised."""
        while self._thread.is_alive():
            self._thread.join(0.02)
            if cancel.is_set():
                self._stop.set()
        self._trace.add("speculation", self._begin_ms)
        self._trace.stages += self._branch.stages
        if self._error:
            raise self._error[0]
        return self._done[0]

    def _run(self, work: Callable[[Found, Trace, Event], Result]) -> None:
        try:
            self._done.append(work(self.found, self._branch, self._stop))
        except BaseException as error:  # noqa: BLE001  it is raised where the result is asked for
            self._error.append(error)
        finally:
            with self._lock:
                if not self.accepted:
                    self._release()


class Speculator(Generic[Found, Result]):
    """Learns how long the stages of a search take, and speculates where there is time to be gained.

    alike  whether work on one find is good for another
    """

    def __init__(
        self, turns: Scheduler, alike: Callable[[Found, Found], bool], config: SpeculationConfig | None = None
    ) -> None:
        self._turns, self._alike, self.config = turns, alike, config or SpeculationConfig()
        self._left_ms: list[float] = []  # by stage: from its hits to the end of the search, expected

    def run(
        self,
        stages: Iterator[Found],
        work: Callable[[Found, Trace, Event], Result],
        trace: Trace,
        turn: ExitStack,
        cancel: Event,
    ) -> tuple[Found, SpeculativePrefill[Found, Result] | None]:
        """Run a search to its end; return what it found, and the guess that agrees with it if there is one.

        work  from a find to its result; ends soon after its event is set
        turn  holds the model for the guess that is returned, if that was kept, until it is closed

        Raises Cancelled once `cancel` is set.
        """
        guess: SpeculativePrefill[Found, Result] | None = None
        times = list[float]()
        try:
            for number, found in enumerate(stages):
                times.append(trace.now_ms())
                if cancel.is_set():
                    raise Cancelled
                if guess is not None and not self._alike(guess.found, found):
                    _drop(guess, turn)
                    guess = None
                if guess is None and self._expected(number) >= self.config.least_ms:
                    stop, spare = Event(), turn.enter_context(ExitStack())
                    keep = spare.enter_context(self._turns.try_acquire_idle(stop))
                    if keep:
                        guess = SpeculativePrefill(found, work, trace, stop, keep, spare.close)
                        turn.callback(guess.end)
            self._learn(times)
            if guess is not None and not guess.holds():
                _drop(guess, turn)
                guess = None
            return found, guess
        except BaseException:
            if guess is not None:
                _drop(guess, turn)
            raise

    def _expected(self, number: int) -> float:
        left = self._left_ms  # another question may put a new list there
        return left[number] if number < len(left) else 0.0

    def _learn(self, times: list[float]) -> None:
        seen, old = [times[-1] - at for at in times], self._left_ms
        old = old if len(old) == len(seen) else seen
        self._left_ms = [before + LEARNING * (now - before) for before, now in zip(old, seen, strict=True)]


def _drop(guess: SpeculativePrefill[Found, Result], turn: ExitStack) -> None:
    guess.cancel()
    turn.close()
