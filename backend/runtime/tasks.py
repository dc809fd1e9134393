"""Registry of running tasks, so that a reload or shutdown can cancel them."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Event


class TaskRegistry:
    """Cancel events of questions, ingests and other tasks. Thread-safe."""

    def __init__(self) -> None:
        self._closing = Event()
        self._draining = False
        self._changed = Condition()  # guards _running and _draining
        self._running: set[Event] = set()

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    @property
    def is_draining(self) -> bool:
        """Whether a reload is cancelling all tasks, so that the user did not cancel them."""
        return self._draining

    @contextmanager
    def track(self, cancel: Event) -> Iterator[None]:
        """Register the enclosed task: `cancel_all`, `drain` and `close` set its `cancel`."""
        with self._changed:
            self._running.add(cancel)
            if self.is_closing or self._draining:
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
        with self._changed:
            self._draining = True
        self.cancel_all()
        try:
            self._wait(timeout_s)
            yield
        finally:
            with self._changed:
                self._draining = False

    def cancel_all(self) -> None:
        """Cancel the running tasks; later ones are not affected."""
        with self._changed:
            for cancel in self._running:
                cancel.set()

    def close(self, timeout_s: float) -> None:
        """Cancel the running tasks and all later ones, and wait for them."""
        self._closing.set()
        self.cancel_all()
        self._wait(timeout_s)

    def _wait(self, timeout_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._running, timeout_s)
