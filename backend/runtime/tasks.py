"""All work under way, so that closing the app can end it."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Event


class TaskRegistry:
    """Stop events of questions, additions and the like, from any thread."""

    def __init__(self) -> None:
        self._closing, self._paused = Event(), False
        self._changed = Condition()  # guards what is running
        self._running: set[Event] = set()

    @property
    def closing(self) -> bool:
        return self._closing.is_set()

    @property
    def paused_now(self) -> bool:
        """Whether everything is held up, so that what stops now was not stopped by the person who asked."""
        return self._paused

    @contextmanager
    def track(self, cancel: Event) -> Iterator[None]:
        """Let `stop`, `paused` and `close` end the enclosed work through `cancel` as well."""
        with self._changed:
            self._running.add(cancel)
            if self.closing or self._paused:
                cancel.set()
        try:
            yield
        finally:
            with self._changed:
                self._running.discard(cancel)
                self._changed.notify_all()

    @contextmanager
    def drained(self, patience_s: float) -> Iterator[None]:
        """End what is under way, wait at most so long for it, and end at once what begins within the block."""
        with self._changed:
            self._paused = True
        self.stop()
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._running, patience_s)
            yield
        finally:
            with self._changed:
                self._paused = False

    def stop(self) -> None:
        """End what is under way now; what begins later goes on."""
        with self._changed:
            for cancel in self._running:
                cancel.set()

    def close(self, patience_s: float) -> None:
        """End what is under way, and whatever begins from now on; wait at most so long for it."""
        self._closing.set()
        self.stop()
        with self._changed:
            self._changed.wait_for(lambda: not self._running, patience_s)
