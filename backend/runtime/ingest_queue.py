"""Which documents are being added, and whose step is computed next: a small one does not wait for a large one.

Several documents are ingested at a time, each with one step in turn. The others wait; sessions take turns, so that many
files of one leave the others free.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Event
from time import monotonic

from backend.runtime.tasks import POLL_S
from engine.errors import Cancelled

MAX_RUNNING = 4  # documents at a time; each has a process that reads it, and its text in memory
MAX_WITH_NEW_SESSIONS = 8  # so that a session with none running need not wait for those of others


class IngestQueue:
    """Thread-safe. Waiting ends with Cancelled once its `cancel` is set."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, object]] = []  # documents with their session, in order of arrival
        self._running: list[str] = []  # the session of each document
        self._steps = deque[object]()  # in the order in which they are computed; the first one is
        self._changed = Condition()  # guards the fields above

    @contextmanager
    def slot(self, session: str, cancel: Event) -> Iterator[None]:
        """Enclose the ingestion of one document; wait until it may start."""
        document = (session, object())
        with self._changed:
            self._waiting.append(document)
            try:
                self._wait(lambda: self._next() is document, cancel)
                self._running.append(session)
            finally:
                self._waiting.remove(document)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(session)
                self._changed.notify_all()

    @contextmanager
    def turn(self, cancel: Event) -> Iterator[None]:
        """Enclose one step of an ingestion; wait until the steps of others that came earlier are done."""
        step = object()
        with self._changed:
            self._steps.append(step)
        try:
            with self._changed:
                self._wait(lambda: self._steps[0] is step, cancel)
            yield
        finally:
            with self._changed:
                self._steps.remove(step)
                self._changed.notify_all()

    def _next(self) -> tuple[str, object] | None:
        """Return the document that may start: the first one of the session with the fewest running."""
        document = min(self._waiting, key=lambda each: self._running.count(each[0]))
        limit = MAX_RUNNING if document[0] in self._running else MAX_WITH_NEW_SESSIONS
        return document if len(self._running) < limit else None

    def _wait(self, is_due: Callable[[], bool], cancel: Event) -> None:
        while not is_due():
            if cancel.is_set():
                raise Cancelled
            self._changed.wait(POLL_S)


class TimeLimit(Event):
    """An event that is set with `cancel`, and after a time."""

    def __init__(self, cancel: Event, seconds: float) -> None:
        super().__init__()
        self._cancel = cancel
        self._end = monotonic() + seconds

    def is_set(self) -> bool:
        return self._cancel.is_set() or monotonic() > self._end
