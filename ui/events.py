"""What the handlers of Gradio's events share: queues, running tasks by session, and rate limiting of updates."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from threading import Event, Lock
from time import monotonic
from typing import Any, TypeVar

import gradio as gr
from gradio.blocks import Block
from gradio.components import Component

from backend.interface.errors import user_message
from backend.interface.limits import MAX_QUESTIONS
from backend.interface.session import SessionEvent

MODEL_QUEUE: dict[str, Any] = {"concurrency_id": "model", "concurrency_limit": MAX_QUESTIONS}  # the App sets the limit
MAX_INGESTIONS = 128  # including waiting ones, each of which has a thread; the backend decides which are next
INGEST_QUEUE: dict[str, Any] = {"concurrency_id": "library", "concurrency_limit": MAX_INGESTIONS}
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
INSTANT: dict[str, Any] = {"queue": False, **QUIET}
# Gradio's default trigger mode, "once", drops an event while the browser still handles the listener's previous one.
RUN_MODEL: dict[str, Any] = {**MODEL_QUEUE, **QUIET, "trigger_mode": "multiple"}
RUN_INGESTION: dict[str, Any] = {**INGEST_QUEUE, **QUIET, "trigger_mode": "multiple"}

Update = dict[Any, Any]  # component -> new value; components that are missing keep theirs
Snapshot = TypeVar("Snapshot")


def session_of(request: gr.Request) -> str:
    """Return Gradio's session hash, which is unique per browser tab."""
    return request.session_hash or "no session"


class Listeners:
    """Handlers of one event that run in one request: with a request each, the page would load slowly."""

    def __init__(self) -> None:
        self._handlers: list[tuple[Callable[..., Update], int]] = []  # each with the number of its inputs
        self._inputs: list[Component] = []
        self._outputs: list[Block] = []

    def add(self, handler: Callable[..., Update], inputs: Sequence[Component], outputs: Sequence[Block]) -> None:
        """Add a handler, which gets the values of its inputs."""
        self._handlers.append((handler, len(inputs)))
        self._inputs += inputs
        self._outputs += outputs

    def connect(self, event: Callable[..., Any], js: str | None = None) -> None:
        """Run all handlers at `event`, such as `button.click`; `js` returns all inputs of the handlers."""
        event(self._run, self._inputs, self._outputs, js=js, **INSTANT)

    def _run(self, *values: Any) -> Update:
        """Return all updates; a handler that fails leaves out its own."""
        remaining = iter(values)
        update: Update = {}
        for handler, num_inputs in self._handlers:
            inputs = list(islice(remaining, num_inputs))
            try:
                update |= handler(*inputs)
            except Exception as error:  # noqa: BLE001  the UI's boundary
                user_message(error)  # logs it
        return update


class SessionTasks:
    """The cancel Events of all running tasks, at most one per session; all sessions share the pages. Thread-safe."""

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}
        self._taken: set[Event] = set()
        self._lock = Lock()

    def start(self, session: str) -> Event | None:
        """Mark the session as busy and return its cancel Event; None, and nothing changes, if it already is busy."""
        event = SessionEvent(session)
        with self._lock:
            return event if self._events.setdefault(session, event) is event else None

    def take(self, session: str) -> Event | None:
        """Return the Event of the session's task to the first caller, who then runs it; None to others."""
        with self._lock:
            event = self._events.get(session)
            if event is None or event in self._taken:
                return None
            self._taken.add(event)
            return event

    def is_busy(self, session: str) -> bool:
        """Return whether the session has a task that has not finished."""
        return session in self._events

    def stop(self, request: gr.Request) -> None:
        """Handle a Stop button: cancel the session's task; its handler still has to call `finish`."""
        if event := self._events.get(session_of(request)):
            event.set()

    def finish(self, session: str, event: Event) -> None:
        """Set `event` and remove its task, if it is still there. A task that the session started later is unaffected.

        Call this before the UI shows that the work has ended, so that the next click is accepted.
        """
        event.set()
        with self._lock:
            self._taken.discard(event)
            if self._events.get(session) is event:
                del self._events[session]

    def discard(self, session: str) -> None:
        """Cancel and remove the session's task, because its tab was closed."""
        if event := self._events.get(session):
            self.finish(session, event)

    def __len__(self) -> int:
        return len(self._events)


def coalesce(
    snapshots: Iterable[Snapshot],
    milestone: Callable[[Snapshot], Hashable],
    interval_s: float = 1 / 12,
    clock: Callable[[], float] = monotonic,
) -> Iterator[Snapshot]:
    """Yield at most one snapshot per `interval_s`, plus the last one and each that changes its `milestone`.

    Browsers render about ten updates per second smoothly, not a hundred.
    """
    pending: list[Snapshot] = []  # empty, or the newest snapshot that was not yielded
    last_milestone: object = object()
    due = clock()
    for snapshot in snapshots:
        pending = [snapshot]
        reached = milestone(snapshot)
        if reached != last_milestone or clock() >= due:
            yield snapshot
            pending = []
            last_milestone = reached
            due = clock() + interval_s
    yield from pending
