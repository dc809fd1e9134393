"""Decide which request is prefilled next: one at a time, the one with the largest cached fraction first.

Such a request finishes soon, and its KV could be evicted while it waits; but none is skipped more than `max_skips`
times. Source: RAGCache, arXiv:2404.12457, sections 5.2 (cache-aware reordering) and 5.3 (speculation only when idle).
Answers are decoded together, while the next request is prefilled (`engine.model.step_batcher`).
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Event

from engine.errors import Cancelled

POLL_S = 0.05  # interval at which a waiting request checks whether it was cancelled
MAX_SKIPS = 32
MAX_DECODING = 8  # answers at a time: the rows of one step; each holds the KV of its prompt


@dataclass(eq=False, slots=True)
class WaitingRequest:
    token_counts: Callable[[], tuple[int, int]]  # the prompt's tokens (cached, to compute) at the time of the call
    times_skipped: int = 0  # how many later requests ran while this one waited
    error: Exception | None = None  # raised by `token_counts`; to be raised again in this request's thread

    def priority(self) -> float:
        """Return cached / to compute; infinite if there is nothing to compute or `token_counts` raises."""
        try:
            cached, to_compute = self.token_counts()
        except Exception as error:  # noqa: BLE001  raised again in the request's own thread
            self.error = error
            return math.inf
        return cached / to_compute if to_compute else math.inf


def pop_next(waiting: list[WaitingRequest], max_skips: int) -> WaitingRequest:
    """Remove and return the request with the highest priority, or the first if it was skipped `max_skips` times.

    `waiting` is in order of arrival; of equal priorities the earliest wins. Skipping a request skips all earlier ones
    too, so the first has been skipped most and only it has to be checked.
    """
    index = 0
    if len(waiting) > 1 and waiting[0].times_skipped < max_skips:
        priorities = [request.priority() for request in waiting]
        index = priorities.index(max(priorities))
    for request in waiting[:index]:
        request.times_skipped += 1
    return waiting.pop(index)


class Scheduler:
    """Grants the main model for prefill, to a `with` block, not a thread: another thread may release it."""

    def __init__(self, max_skips: int = MAX_SKIPS, max_decoding: int = MAX_DECODING) -> None:
        self._max_skips = max_skips  # 0 is first come, first served
        self._max_decoding = max_decoding
        self._changed = Condition()  # guards all below
        self._queue: list[WaitingRequest] = []  # empty unless the model is in use, or too many answers are decoded
        self._owner: object | None = None
        self._num_decoding = 0
        self._preempt: Event | None = None  # cancels the owner's work if that is idle-time work

    @property
    def num_waiting(self) -> int:
        return len(self._queue)

    @property
    def num_decoding(self) -> int:
        return self._num_decoding

    @contextmanager
    def acquire(
        self, token_counts: Callable[[], tuple[int, int]], cancel: Event, exclusive: bool = False
    ) -> Iterator[None]:
        """Wait for the model and hold it for the duration of the block.

        If `exclusive`, the block begins when no answer is decoded any more; later requests wait for it.

        `token_counts` is called by any thread under the scheduler's lock, so it must be quick and must not acquire; its
        exceptions are raised here. Raises Cancelled, and leaves the queue, if `cancel` is set before the block begins.
        """
        request = WaitingRequest(token_counts)
        try:
            with self._changed:
                if not cancel.is_set():
                    self._queue.append(request)
                    if self._preempt is not None:
                        self._preempt.set()
                    if self._owner is None:
                        self._grant_next()
                while not (self._owner is request and not (exclusive and self._num_decoding)) and not cancel.is_set():
                    self._changed.wait(POLL_S)
            if cancel.is_set():
                raise Cancelled
            if request.error is not None:
                raise request.error
            yield
        finally:
            self._release(request)

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Enclose the decoding of an answer. Its request holds the model at the start and gives it back inside."""
        with self._changed:
            self._num_decoding += 1
        try:
            yield
        finally:
            with self._changed:
                self._num_decoding -= 1
                if self._owner is None:
                    self._grant_next()
                self._changed.notify_all()

    @contextmanager
    def try_acquire_idle(self, cancel: Event) -> Iterator[Callable[[], bool] | None]:
        """Hold the model for speculative work if it is idle; yield None without waiting if it is in use.

        The scheduler sets `cancel` as soon as a request starts to wait; the block has to end soon after. Otherwise
        yields `promote`, which turns this into a regular grant that new requests wait for. Any thread may call it; it
        returns False if `cancel` was set before, by anyone, or the block has ended.
        """
        owner = object()

        def promote() -> bool:
            with self._changed:
                if self._owner is not owner or cancel.is_set():
                    return False
                self._preempt = None
                return True

        with self._changed:
            acquired = self._owner is None and not self._num_decoding
            if acquired:
                self._owner = owner
                self._preempt = cancel
        try:
            yield promote if acquired else None
        finally:
            self._release(owner)

    def close(self, timeout_s: float) -> None:
        """Wait until no request runs or waits, at most `timeout_s`; the caller has cancelled them all before."""
        with self._changed:
            self._changed.wait_for(lambda: self._owner is None and not self._num_decoding, timeout_s)

    def _release(self, owner: object) -> None:
        with self._changed:
            if self._owner is owner:
                self._preempt = None
                self._grant_next()
            elif owner in self._queue:
                self._queue.remove(owner)

    def _grant_next(self) -> None:
        can_start = self._queue and self._num_decoding < self._max_decoding
        self._owner = pop_next(self._queue, self._max_skips) if can_start else None
        self._changed.notify_all()
