"""Who may be stopped: one running question (or upload) a session, and its Event.

The page object is shared by everyone who has it open, so nothing of a person lies on it but this, keyed by the
session that Gradio gives each tab, and gone when the work ends.
"""

from threading import Event, Lock


class Stops:
    """The Events of the work under way. Safe from any thread."""

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}
        self._lock = Lock()

    def start(self, session: str) -> Event:
        """Return a new Event for this session; what the session did before is told to stop."""
        with self._lock:
            earlier, self._events[session] = self._events.get(session), Event()
            if earlier:
                earlier.set()
            return self._events[session]

    def current(self, session: str) -> Event:
        """Return the session's Event, a new one if it has none."""
        with self._lock:
            return self._events.setdefault(session, Event())

    def stop(self, session: str) -> None:
        """Tell this session's work, and nobody else's, to stop."""
        with self._lock:
            event = self._events.get(session)
        if event:
            event.set()

    def finish(self, session: str, event: Event) -> None:
        """Set and forget `event`; work that the session started since is left alone."""
        event.set()
        with self._lock:
            if self._events.get(session) is event:
                del self._events[session]

    def __len__(self) -> int:
        return len(self._events)
