"""Answers for the event loop: the engine's blocking generator runs in a thread of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from threading import Event, Thread

from starlette.requests import Request as HttpRequest

from backend.interface.backend import Backend
from engine.request import Answer, Request


async def stream_answers(backend: Backend, request: Request, cancel: Event) -> AsyncIterator[Answer]:
    """Yield the growing answer and raise what the backend raises; a slow client does not slow down the engine.

    cancel  stops the computation within a layer or a token; set when this iterator ends for any reason
    """
    loop = asyncio.get_running_loop()
    updates: asyncio.Queue[Answer | Exception | None] = asyncio.Queue()  # ends with an error or None

    def send(update: Answer | Exception | None) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(updates.put_nowait, update)

    def run() -> None:
        try:
            for answer in backend.ask(request, cancel):
                send(answer)
            send(None)
        except Exception as error:  # noqa: BLE001  raised again in the loop
            send(error)

    Thread(target=run, name="http request", daemon=True).start()
    try:
        while (update := await updates.get()) is not None:
            if isinstance(update, Exception):
                raise update
            yield update
    finally:
        cancel.set()


async def cancel_at_end(request: HttpRequest, cancel: Event) -> None:
    """Set `cancel` when the response has been sent or the client disconnects. Call this after reading the body."""
    try:
        while (await request.receive())["type"] != "http.disconnect":
            pass
    finally:
        cancel.set()
