"""Registry of running tasks, so that a reload or shutdown can cancel them."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Event


class TaskRegistry:
    """Cancel events of questions, ingests and other tasks. Thread-safe."""

    def __init__(self) -> None:
        self.is_closing = False  # all later tasks are cancelled
        self.is_draining = False  # likewise, by a reload: the user did not cancel them
        self._running: set[Event] = set()
        self._changed = Condition()  # guards _running

    @contextmanager
    def track(self, cancel: Event) -> Iterator[None]:
        """Register the enclosed task: `drain` and `close` set its `cancel`."""
        with self._changed:
            self._running.add(cancel)
            if self.is_closing or self.is_draining:
                cancel.set()
        try:
            yield
        finally:
            with self._changed:
                self._running.discard(cancel)
                self._changed.notify_all()

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
