"""Cancels one call of the Gradio API, for `job.cancel()` of gradio_client.

Gradio's own route ends every running call of the client at the same endpoint, without an answer to the others, and
leaves a function that is not a generator running.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from gradio.context import LocalContext
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.interface.session import SessionEvent
from ui.events import session_of

_PATHS = ("/gradio_api/cancel", "/gradio_api/reset")  # the second is for a job that was cancelled before it was queued
_running: dict[str, Event] = {}  # the cancel event of each running call, by Gradio's id of the call


@contextmanager
def cancellable() -> Iterator[Event]:
    """Enclose the current call; yield an event that is set when the client cancels it, and at its end."""
    event_id, request = LocalContext.event_id.get(None), LocalContext.request.get(None)
    cancel = SessionEvent(session_of(request) if request else "")
    if event_id:
        _running[event_id] = cancel
    try:
        yield cancel
    finally:
        cancel.set()
        if event_id:
            del _running[event_id]


class CancelRoute:
    """Middleware that answers requests to cancel a call which is enclosed in `cancellable`, in Gradio's place."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in _PATHS or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:
            return
        if cancel := _running.get(_event_id(body)):
            cancel.set()
            await JSONResponse({"success": True})(scope, receive, send)
            return
        messages: list[Message] = [{"type": "http.request", "body": body}]

        async def receive_again() -> Message:
            return messages.pop() if messages else await receive()

        await self._app(scope, receive_again, send)


def _event_id(body: bytes) -> str:
    """Return the id of the call in the body of a request; an empty string if there is none."""
    try:
        return str(json.loads(body)["event_id"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
