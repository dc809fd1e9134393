"""Who may be stopped: one running question (or re-indexing) a session, and its Event.

The page object is shared by everyone who has it open, so nothing of a person lies on it but this, keyed by the
session that Gradio gives each tab, and gone when the work ends or the tab is closed.
"""

from threading import Event, Lock


class SessionTasks:
    """The Events of the work under way. Safe from any thread.

    A click starts the work and is answered at once; the work itself takes its Event up when its turn comes. In
    between and until it is finished, the session is busy and starts nothing else.
    """

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}
        self._waiting: set[str] = set()  # sessions whose work is started and not taken up yet
        self._lock = Lock()

    def start(self, session: str) -> bool:
        """Make this session busy; return False, and change nothing, if it already is."""
        with self._lock:
            if session in self._events:
                return False
            self._events[session] = Event()
            self._waiting.add(session)
            return True

    def take(self, session: str) -> Event | None:
        """Return the Event of the work that was started, once; None if there is none, or if somebody has taken it."""
        with self._lock:
            if session not in self._waiting:
                return None
            self._waiting.remove(session)
            return self._events[session]

    def busy(self, session: str) -> bool:
        """Return whether work of this session is started and not finished."""
        with self._lock:
            return session in self._events

    def stop(self, session: str) -> None:
        """Tell this session's work, and nobody else's, to stop."""
        with self._lock:
            event = self._events.get(session)
        if event:
            event.set()

    def finish(self, session: str, event: Event) -> None:
        """Set and forget `event`; work that the session started since is left alone.

        Called before the page shows that the work has ended, so that the next click then is not ignored; and again,
        without effect, however the work ended.
        """
        event.set()
        with self._lock:
            if self._events.get(session) is event:
                del self._events[session]
                self._waiting.discard(session)

    def leave(self, session: str) -> None:
        """Stop and forget what this session has started: its tab is closed."""
        with self._lock:
            event = self._events.pop(session, None)
            self._waiting.discard(session)
        if event:
            event.set()

    def __len__(self) -> int:
        return len(self._events)
