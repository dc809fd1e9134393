"""Who uses the primary model next: one pass at a time, and of the waiting requests the one with most KV at hand.

Two passes at once would only slow each other. A request that finds its KV cached is soon done, and later its KV might
be evicted; so it goes first, but nobody is overtaken for ever.
Source: RAGCache, arXiv:2404.12457, section 5.2 (cache-aware reordering) and 5.3 (speculation only in an empty queue).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Event

from engine.errors import Cancelled

POLL_S = 0.05  # how often a waiting request looks whether it was cancelled


@dataclass(frozen=True)
class SchedulerConfig:
    """window  requests that may overtake another; 0 is first come, first served. ValueError if negative."""

    max_skips: int = 32

    def __post_init__(self) -> None:
        if self.max_skips < 0:
            raise ValueError(f"window must be at least 0, got {self.max_skips}")


@dataclass(eq=False, slots=True)
class WaitingRequest:
    """A request in line.

    lengths    returns the tokens (cached, to compute) of its prompt as they are now
    overtaken  requests that came later and were served while this one waited
    error      what `lengths` raised; it belongs to this request, not to the one that asked
    """

    lengths: Callable[[], tuple[int, int]]
    times_skipped: int = 0
    error: Exception | None = None

    def ratio(self) -> float:
        """Return cached / to compute; infinite if nothing is to compute, or if `lengths` raises."""
        try:
            cached, compute = self.lengths()
        except Exception as error:  # noqa: BLE001  it is raised again in the request's own thread
            self.error = error
            return math.inf
        return cached / compute if compute else math.inf


def pick_next(waiting: Sequence[WaitingRequest], window: int) -> int:
    """Return the index of the largest ratio, of equals the first; or 0 if the first was overtaken `window` times.

    waiting  at least one, in order of arrival, counted by `take_next`; whoever overtakes a later one overtakes all
             earlier ones too, so the first was overtaken most and no other need be looked at
    """
    if len(waiting) == 1 or waiting[0].times_skipped >= window:
        return 0
    ratios = [request.ratio() for request in waiting]
    return ratios.index(max(ratios))


def pop_next(waiting: list[WaitingRequest], window: int) -> WaitingRequest:
    """Remove and return the next in line; those before it were overtaken once more. Arguments as for `next_in_line`."""
    index = pick_next(waiting, window)
    for request in waiting[:index]:
        request.times_skipped += 1
    return waiting.pop(index)


class Scheduler:
    """The line of requests before the primary model.

    A turn belongs to its block, not to a thread: it may end in another thread than it began.
    """

    def __init__(self, config: SchedulerConfig | None = None) -> None:
        self.config = config or SchedulerConfig()
        self._changed = Condition()  # guards all below
        self._line: list[WaitingRequest] = []  # empty while nobody holds the turn
        self._holder: object | None = None
        self._unkept: Event | None = None  # cancels the work in a spare turn

    @property
    def waiting(self) -> int:
        return len(self._line)

    @contextmanager
    def acquire(self, lengths: Callable[[], tuple[int, int]], cancel: Event) -> Iterator[None]:
        """Wait until it is this request's turn, and hold it for the block.

        lengths  returns the tokens (cached, to compute) as they are now. Asked whenever one of several is chosen, by
                 the thread that chooses and under the lock of the line: it must be quick and never wait for a turn.
                 What it raises is raised here.

        Raises Cancelled, and leaves the line, if `cancel` is set before the block begins.
        """
        request = WaitingRequest(lengths)
        try:
            with self._changed:
                if not cancel.is_set():
                    self._join(request)
                while self._holder is not request and not cancel.is_set():
                    self._changed.wait(POLL_S)
            if cancel.is_set():
                raise Cancelled
            if request.error is not None:
                raise request.error
            yield
        finally:
            self._leave(request)

    @contextmanager
    def try_acquire_idle(self, cancel: Event) -> Iterator[Callable[[], bool] | None]:
        """Hold a turn that nobody wants for work that may be in vain; give None, at once, if somebody runs or waits.

        cancel  of this work alone, not of the request it is done for; set here as soon as a request begins to wait,
                and the block has to end soon after

        Otherwise gives `keep`, which any thread may call: it makes this a turn that newcomers wait for. It returns
        False if `cancel` was set before, by whomever, or the block has ended.
        """
        holder = object()

        def keep() -> bool:
            with self._changed:
                if self._holder is not holder or cancel.is_set():
                    return False
                self._unkept = None
                return True

        with self._changed:
            taken = self._holder is None
            if taken:
                self._holder, self._unkept = holder, cancel
        try:
            yield keep if taken else None
        finally:
            self._leave(holder)

    def close(self, patience_s: float) -> None:
        """Wait until nobody runs or waits, at most `patience_s`; the caller has told them all to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._holder is None, patience_s)

    def _join(self, request: WaitingRequest) -> None:
        self._line.append(request)
        if self._unkept is not None:
            self._unkept.set()
        if self._holder is None:
            self._hand_on()

    def _leave(self, one: object) -> None:
        with self._changed:
            if self._holder is one:
                self._unkept = None
                self._hand_on()
            elif one in self._line:
                self._line.remove(one)

    def _hand_on(self) -> None:
        self._holder = pop_next(self._line, self.config.max_skips) if self._line else None
        self._changed.notify_all()
