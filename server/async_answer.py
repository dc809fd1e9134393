"""A question asked from the event loop: it has a thread of its own, and the loop sees the newest answer.

The engine's generator blocks for seconds, so it cannot run in the loop; and it never waits for a slow reader, because
only the newest snapshot is kept for one. That loses nothing: an answer's text only grows.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from threading import Event, Thread

from starlette.requests import Request as HttpRequest

from backend.interface.backend import Backend
from engine.request import Answer, Request


class Answering:
    """One question under way. Use it from the event loop.

    cancel  ends the computation within a layer or a token
    """

    def __init__(self, backend: Backend, request: Request, cancel: Event) -> None:
        self._backend, self._request, self._cancel = backend, request, cancel
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        self._newest: Answer | None = None
        self._error: Exception | None = None
        self._ended = False

    async def answers(self) -> AsyncIterator[Answer]:
        """Yield the growing answer, the newest snapshot each time and always the last. Raises what the backend raises.

        However this is left, the computation is told to stop.
        """
        Thread(target=self._run, name="http question", daemon=True).start()
        try:
            ended, shown = False, None
            while not ended:
                await self._news.wait()
                self._news.clear()
                ended = self._ended  # before the answer: what is newest after the end is the last
                if self._newest is not None and self._newest is not shown:
                    shown = self._newest
                    yield shown
            if self._error is not None:
                raise self._error
        finally:
            self._cancel.set()

    def _run(self) -> None:
        try:
            for answer in self._backend.ask(self._request, self._cancel):
                self._newest = answer
                self._tell()
        except Exception as error:  # noqa: BLE001  it is raised again where it is waited for
            self._error = error
        self._ended = True
        self._tell()

    def _tell(self) -> None:
        with suppress(RuntimeError):  # the loop has closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._news.set)


async def stop_when_gone(request: HttpRequest, cancel: Event) -> None:
    """Set `cancel` once the caller has hung up. Await it in a task of its own, after the body was read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    cancel.set()
