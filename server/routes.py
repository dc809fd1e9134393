"""The routes beside the page. Gradio's server takes them in front of its own: `launch(app_kwargs=app_kwargs(...))`."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from threading import Event
from typing import Any

from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from backend.interface.backend import MAX_CONCURRENT_REQUESTS, Backend
from engine.request import Answer
from server import chat_request as chat
from server import models
from server.async_answer import Answering, stop_when_gone
from server.chat_response import Completion
from server.errors import Refused, refusal
from server.host_guard import Guard

LARGEST_BODY = 2**20  # bytes: a conversation of some hundred pages
_SERVED = "/v1/chat/completions, /v1/models, /healthz and /metrics"


def app_kwargs(backend: Backend, host: str) -> dict[str, Any]:
    """Return what `launch(app_kwargs=...)` takes: the routes, and the guard in front of them and of the page.

    host  the address or name the server listens on
    """
    return {"routes": Doors(backend).routes(), "middleware": [Middleware(Guard, host=host)]}


class Doors:
    """The handlers of one backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._since = backend, int(time.time())
        self._asked: set[Event] = set()  # an event each question, set once it has ended

    def routes(self) -> list[BaseRoute]:
        """Return the routes, the narrow before the wide."""
        return [
            Route("/healthz", self.health),
            Route("/metrics", self.metrics),
            Route("/v1/models", self.list_models),
            Route("/v1/models/{name:path}", self.one_model),
            Route("/v1/chat/completions", _refusing(self.complete), methods=["POST"]),
            Route("/v1/{rest:path}", self.unknown, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]

    def health(self, request: HttpRequest) -> Response:
        """Say whether questions are answered: 200 or 503, with the status line."""
        status = self._backend.status()
        word = "ok" if status.ready else "failed" if status.failed else "loading"
        return JSONResponse({"status": word, "detail": status.line}, 200 if status.ready else 503)

    def metrics(self, request: HttpRequest) -> Response:
        """Return everything counted since the start."""
        return PlainTextResponse(self._backend.metrics.text(), media_type="text/plain; version=0.0.4")

    def list_models(self, request: HttpRequest) -> Response:
        """List the methods as models."""
        return JSONResponse({"object": "list", "data": models.listed(self._backend.methods(), self._since)})

    def one_model(self, request: HttpRequest) -> Response:
        """Return the model of this name, with or without a ratio."""
        name, methods = request.path_params["name"], self._backend.methods()
        try:
            chosen = models.choose(name, methods)
        except Refused as refused:
            return refused.response()
        method = next(method for method in methods if method.name == chosen.method)
        return JSONResponse(models.shown(name, method, self._since))

    def unknown(self, request: HttpRequest) -> Response:
        """Say what there is instead."""
        said = f"There is no {request.method} {request.url.path} here, only {_SERVED}."
        return Refused(404, said, code="unknown_url").response()

    async def complete(self, request: HttpRequest) -> Response:
        """Answer a chat, whole or in chunks."""
        asked = chat.read(await _body(request))
        wanted, completion = asked.request(self._backend.methods()), Completion(asked.model)
        cancel = self._open()
        leaving = asyncio.create_task(stop_when_gone(request, cancel))
        try:
            answers = Answering(self._backend, wanted, cancel).answers()
            if asked.stream:
                begun = [await anext(answers)]
                while begun[-1].state == "searching":
                    begun.append(await anext(answers))
                return _Stream(completion.stream(_resume(begun[-1], answers), asked.include_usage), cancel)
            return JSONResponse(completion.whole([answer async for answer in answers][-1]))
        except BaseException:
            cancel.set()
            raise
        finally:
            leaving.cancel()

    def _open(self) -> Event:
        """Return the stop event of a new question. Raises Refused (429) while too many are under way."""
        self._asked = {cancel for cancel in self._asked if not cancel.is_set()}
        if len(self._asked) >= MAX_CONCURRENT_REQUESTS:
            said = f"{MAX_CONCURRENT_REQUESTS} questions are under way already. Ask again when one has been answered."
            raise Refused(429, said, code="rate_limit_exceeded", retry=True)
        cancel = Event()
        self._asked.add(cancel)
        return cancel


class _Stream(StreamingResponse):
    """Server-sent events; however their sending ends, the computation is told to stop."""

    def __init__(self, events: AsyncIterator[str], cancel: Event) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._cancel = cancel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._cancel.set()


async def _resume(begun: Answer, answers: AsyncIterator[Answer]) -> AsyncIterator[Answer]:
    yield begun
    async for answer in answers:
        yield answer


async def _body(request: HttpRequest) -> bytes:
    """Return the body. Raises Refused for anything but JSON (415), which no page elsewhere can send unasked, and for
    more than LARGEST_BODY (413), whether or not the caller has said how long it is.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, f"The Content-Type must be application/json, not {kind or 'left out'}.")
    read = bytearray()
    async for part in request.stream():
        read += part
        if len(read) > LARGEST_BODY:
            raise Refused(413, f"The request is larger than {LARGEST_BODY >> 20} MB. Leave out the oldest messages.")
    return bytes(read)


def _refusing(handle: Callable[[HttpRequest], Awaitable[Response]]) -> Callable[[HttpRequest], Awaitable[Response]]:
    """Return the handler with its errors turned into answers."""

    async def handled(request: HttpRequest) -> Response:
        try:
            return await handle(request)
        except Exception as error:  # noqa: BLE001  the border to the caller: every error becomes a sentence
            return refusal(error).response()

    return handled
