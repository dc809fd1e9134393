"""The cancel event of a call, with the session that it belongs to."""

from threading import Event


class SessionEvent(Event):
    """The cancel event of work for one session: documents of several sessions take turns."""

    def __init__(self, session: str) -> None:
        super().__init__()
        self.session = session
