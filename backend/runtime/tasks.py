"""Registry of running tasks, so that a reload or shutdown can cancel them."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Event
from time import monotonic

from engine.openmp import release_team

POLL_S = 0.1  # at which waiting work looks whether it was cancelled
MAX_WAIT_S = 3.0  # for which a step of ingestion gives way to questions: so it also ends on a busy server


class TaskRegistry:
    """Cancel events of questions, ingests and other tasks. Thread-safe."""

    def __init__(self) -> None:
        self.is_closing = False  # all later tasks are cancelled
        self.is_draining = False  # likewise, by a reload: the user did not cancel them
        self._running: set[Event] = set()
        self._heavy: set[Event] = set()  # those of _running that are not brief
        self._questions: set[Event] = set()  # those of _running that a user waits for
        self._idle_work: set[Event] = set()  # those of _running that give way to any other task
        self._between_questions: set[Event] = set()  # set as soon as a question starts
        self._last_end = monotonic()
        self._changed = Condition()  # guards _running

    @contextmanager
    def track(self, cancel: Event, is_brief: bool = False) -> Iterator[None]:
        """Register the enclosed task: `drain` and `close` set its `cancel`.

        A brief one, such as a page's regular look at the documents, neither ends the idle time nor work in it.
        """
        with self._changed:
            self._running.add(cancel)
            if not is_brief:
                self._heavy.add(cancel)
                for idle in self._idle_work:
                    idle.set()
            if self.is_closing or self.is_draining:
                cancel.set()
        try:
            yield
        finally:
            with self._changed:
                self._running.discard(cancel)
                if not is_brief:
                    self._heavy.discard(cancel)
                    self._last_end = monotonic()
                self._changed.notify_all()

    @contextmanager
    def track_question(self, cancel: Event) -> Iterator[None]:
        """Register a task that a user waits for: ingestion gives way to it."""
        with self.track(cancel):
            with self._changed:
                self._questions.add(cancel)
                for interrupt in self._between_questions:
                    interrupt.set()
            try:
                yield
            finally:
                with self._changed:
                    self._questions.discard(cancel)
                    self._changed.notify_all()

    @contextmanager
    def between_questions(self, cancel: Event, max_wait_s: float = MAX_WAIT_S) -> Iterator[Event]:
        """Wait until no question runs; yield an event that is set as soon as one starts, and with `cancel`.

        After `max_wait_s` the block runs at the same time as questions, and only `cancel` sets the event.
        """
        interrupt, wait_until = _Interrupt(cancel), monotonic() + max_wait_s
        with self._changed:
            while self._questions and not cancel.is_set() and monotonic() < wait_until:
                self._changed.wait(POLL_S)
            if monotonic() < wait_until:
                self._between_questions.add(interrupt)
        try:
            yield interrupt
        finally:
            release_team()
            with self._changed:
                self._between_questions.discard(interrupt)

    @contextmanager
    def track_idle_work(self, cancel: Event) -> Iterator[None]:
        """Register work for idle time: also any task that starts within the block sets its `cancel`."""
        with self.track(cancel):
            with self._changed:
                self._idle_work.add(cancel)
                if len(self._heavy) > 1:
                    cancel.set()
            try:
                yield
            finally:
                release_team()
                with self._changed:
                    self._idle_work.discard(cancel)

    def idle_seconds(self) -> float:
        """Return for how long no task has been running."""
        with self._changed:
            return 0.0 if self._heavy else monotonic() - self._last_end

    @contextmanager
    def drain(self, timeout_s: float) -> Iterator[None]:
        """Cancel all tasks and wait for them; cancel every task that starts within the block."""
        self.is_draining = True
        try:
            self._cancel_all(timeout_s)
            yield
        finally:
            self.is_draining = False

    def close(self, timeout_s: float) -> None:
        """Cancel the running tasks and all later ones, and wait for them."""
        self.is_closing = True
        self._cancel_all(timeout_s)

    def _cancel_all(self, timeout_s: float) -> None:
        with self._changed:
            for cancel in self._running:
                cancel.set()
            self._changed.wait_for(lambda: not self._running, timeout_s)


class _Interrupt(Event):
    """An event that is also set while `cancel` is."""

    def __init__(self, cancel: Event) -> None:
        super().__init__()
        self._cancel = cancel

    def is_set(self) -> bool:
        return super().is_set() or self._cancel.is_set()
