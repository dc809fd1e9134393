"""Answers for the event loop: the engine's blocking generator runs in a thread of its own.

Only the latest answer is kept, so that a slow client does not slow down the engine. An answer's text only grows, so
nothing is lost.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread

from starlette.requests import Request as HttpRequest

from backend.interface.backend import Backend
from engine.request import Answer, Request


@dataclass(slots=True)
class _Progress:
    latest: Answer | None = None
    error: Exception | None = None
    finished: bool = False


async def stream_answers(backend: Backend, request: Request, cancel: Event) -> AsyncIterator[Answer]:
    """Yield the growing answer: the latest one each time, and always the last. Raises what the backend raises.

    cancel  stops the computation within a layer or a token; set when this iterator ends for any reason
    """
    loop, updated, progress = asyncio.get_running_loop(), asyncio.Event(), _Progress()

    def notify() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(updated.set)

    def run() -> None:
        try:
            for answer in backend.ask(request, cancel):
                progress.latest = answer
                notify()
        except Exception as error:  # noqa: BLE001  raised again in the loop
            progress.error = error
        progress.finished = True
        notify()

    Thread(target=run, name="http request", daemon=True).start()
    try:
        finished, shown = False, None
        while not finished:
            await updated.wait()
            updated.clear()
            finished = progress.finished  # read before the answer: what is the latest afterwards is the last
            if progress.latest is not None and progress.latest is not shown:
                shown = progress.latest
                yield shown
        if progress.error is not None:
            raise progress.error
    finally:
        cancel.set()


async def cancel_on_disconnect(request: HttpRequest, cancel: Event) -> None:
    """Set `cancel` when the client disconnects. Run it as a task, after the body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    cancel.set()
