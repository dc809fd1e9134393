"""All work under way, so that closing the app can end it."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event


class Work:
    """Stop events of questions, additions and the like, from any thread."""

    def __init__(self) -> None:
        self._closing = Event()
        self._running: set[Event] = set()

    @property
    def closing(self) -> bool:
        return self._closing.is_set()

    @contextmanager
    def stoppable(self, cancel: Event) -> Iterator[None]:
        """Let `stop` and `close` end the enclosed work through `cancel` as well."""
        self._running.add(cancel)
        if self.closing:
            cancel.set()
        try:
            yield
        finally:
            self._running.discard(cancel)

    def stop(self) -> None:
        """End what is under way now; what begins later goes on."""
        for cancel in list(self._running):
            cancel.set()

    def close(self) -> None:
        """End what is under way, and whatever begins from now on."""
        self._closing.set()
        self.stop()
