"""Cancellation of a session's running work (a question or a re-indexing job) through one Event per session.

Sessions are Gradio's session hashes, one per browser tab; all of them share the page objects.
"""

from threading import Event, Lock


class SessionTasks:
    """The cancel Events of all running tasks, at most one per session. Thread-safe.

    A click calls `start`, which returns at once; the handler that does the work calls `claim` when its turn in the
    queue comes. From `start` to `finish` the session is busy and cannot start anything else.
    """

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}
        self._unclaimed: dict[str, Event] = {}  # started, but not claimed yet
        self._lock = Lock()

    def start(self, session: str) -> bool:
        """Mark the session as busy; return False, and change nothing, if it already is."""
        with self._lock:
            if session in self._events:
                return False
            self._events[session] = self._unclaimed[session] = Event()
            return True

    def claim(self, session: str) -> Event | None:
        """Return the cancel Event of the started task; None if there is none or it was claimed before."""
        return self._unclaimed.pop(session, None)

    def is_busy(self, session: str) -> bool:
        """Return whether the session has a task that has not finished."""
        return session in self._events

    def stop(self, session: str) -> None:
        """Cancel the session's task; its handler still has to call `finish`."""
        if event := self._events.get(session):
            event.set()

    def finish(self, session: str, event: Event) -> None:
        """Set `event` and remove its task, if it is still there. A task that the session started later is unaffected.

        Call this before the UI shows that the work has ended, so that the next click is accepted.
        """
        event.set()
        with self._lock:
            if self._events.get(session) is event:
                del self._events[session]

    def discard(self, session: str) -> None:
        """Cancel and remove the session's task, because its tab was closed."""
        with self._lock:
            self._unclaimed.pop(session, None)
            event = self._events.pop(session, None)
        if event:
            event.set()

    def __len__(self) -> int:
        return len(self._events)
