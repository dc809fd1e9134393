"""HTTP routes beside the UI: `launch(app_kwargs=app_kwargs(...))` puts them in front of Gradio's own."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from threading import Event
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, StreamingResponse
from fastapi.routing import APIRoute
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send

from backend.interface.backend import MAX_CONCURRENT_REQUESTS, Backend
from engine.request import Answer
from server.async_answer import cancel_on_disconnect, stream_answers
from server.chat_request import ChatRequest
from server.chat_response import Completion
from server.docs_page import docs_page
from server.errors import ApiError, ErrorResponse, to_api_error
from server.host_guard import HostGuard
from server.models import model_list, model_object, parse_model

MAX_BODY_BYTES = 2**20  # a conversation of some hundred pages
_ENDPOINTS = "/v1/chat/completions, /v1/models, /v1/docs, /v1/openapi.json, /healthz and /metrics"


def app_kwargs(backend: Backend, host: str) -> dict[str, Any]:
    """Return the `app_kwargs` of Gradio's `launch`: routes, and a guard in front of them and of the UI.

    host  the address or name the server listens on
    """
    return {"routes": routes(backend), "middleware": [Middleware(HostGuard, host=host)]}


def routes(backend: Backend) -> list[BaseRoute]:
    """Return the routes of the health check, the metrics and the OpenAI-compatible API."""

    def health(request: HttpRequest) -> Response:
        status = backend.status()
        state = "ok" if status.ready else "failed" if status.failed else "loading"
        return JSONResponse({"status": state, "detail": status.message}, 200 if status.ready else 503)

    def metrics(request: HttpRequest) -> Response:
        return PlainTextResponse(backend.metrics_text(), media_type="text/plain; version=0.0.4")

    return [Route("/healthz", health), Route("/metrics", metrics), Mount("/v1", openai_api(backend))]


def openai_api(backend: Backend) -> FastAPI:
    """Return the OpenAI-compatible API with its schema and a page that shows the schema."""
    api = FastAPI(
        title="KVScope",
        summary="Question answering over the documents of this server, with OpenAI's chat completion API.",
        version="1",
        servers=[{"url": "/v1"}],
        root_path_in_servers=False,
        docs_url=None,  # Swagger UI would be loaded from another server
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        responses={"default": {"description": "An error", "model": ErrorResponse}},
        exception_handlers={404: _unknown_url, 405: _unknown_url},
    )
    api.router.route_class = _OpenAIRoute
    endpoints = _Endpoints(backend)
    for add_route in (api.get, partial(api.head, include_in_schema=False)):
        add_route("/models")(endpoints.list_models)
        add_route("/models/{name:path}")(endpoints.get_model)
    success = {
        "description": "A completion, or its chunks",
        "content": {"application/json": {}, "text/event-stream": {}},
    }
    api.post("/chat/completions", responses={200: success})(endpoints.create_chat_completion)

    @api.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(api.openapi()))

    return api


class _Endpoints:
    """The endpoints of one backend. Docstrings are part of the API's documentation."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._created = int(time.time())
        self._running: set[Event] = set()  # a cancel event per chat completion; set when it has ended

    def list_models(self) -> dict[str, Any]:
        """List the methods as models, the default first."""
        return model_list(self._backend.methods(), self._created)

    def get_model(self, name: str) -> dict[str, Any]:
        """Return the model of this name, with or without a recompute ratio."""
        return model_object(name, parse_model(name, self._backend.methods()).method, self._created)

    async def create_chat_completion(self, chat: ChatRequest, request: HttpRequest) -> Response:
        """Answer a question from the documents.

        The answer, or the last chunk of a stream, has KVScope's metrics and sources under `kvscope`. Closing the
        connection cancels the request.
        """
        engine_request, completion = chat.to_request(self._backend.methods()), Completion(chat.model)
        cancel = self._start_request()
        disconnect = asyncio.create_task(cancel_on_disconnect(request, cancel))
        try:
            answers = stream_answers(self._backend, engine_request, cancel)
            if not chat.stream:
                return JSONResponse(completion.body([answer async for answer in answers][-1]))
            first = await anext(answers)
            while first.state == "searching":  # errors still change the status of the response
                first = await anext(answers)
            return _EventStream(completion.events(_chain(first, answers), chat.include_usage), cancel)
        except BaseException:
            cancel.set()
            raise
        finally:
            disconnect.cancel()

    def _start_request(self) -> Event:
        """Return the cancel event of a new request. Raises ApiError (429) if too many are running."""
        self._running = {cancel for cancel in self._running if not cancel.is_set()}
        if len(self._running) >= MAX_CONCURRENT_REQUESTS:
            message = f"{MAX_CONCURRENT_REQUESTS} requests are already running. Try again when one has finished."
            raise ApiError(429, message, code="rate_limit_exceeded", retry=True)
        cancel = Event()
        self._running.add(cancel)
        return cancel


class _LimitedRequest(HttpRequest):
    async def body(self) -> bytes:
        """Return the body. Raises ApiError if it is too large (413) or not JSON (415).

        Web pages of other origins cannot send JSON without a preflight request. The size is counted while reading: a
        client may leave out the Content-Length.
        """
        if not hasattr(self, "_body"):
            content_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
            if content_type != "application/json":
                raise ApiError(415, f"The Content-Type must be application/json, not {content_type or 'missing'}.")
            body = bytearray()
            async for part in self.stream():
                body += part
                if len(body) > MAX_BODY_BYTES:
                    message = f"The request is larger than {MAX_BODY_BYTES >> 20} MB. Leave out the oldest messages."
                    raise ApiError(413, message)
            self._body = bytes(body)
        return self._body


class _OpenAIRoute(APIRoute):
    """A route that limits request bodies and reports every error in OpenAI's format."""

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_errors(request: HttpRequest) -> Response:
            try:
                if request.method == "POST":
                    request = _LimitedRequest(request.scope, request.receive)
                    await request.body()
                return await handle(request)
            except Exception as error:  # noqa: BLE001  sent to the client
                return to_api_error(error).response()

        return handle_errors


class _EventStream(StreamingResponse):
    """Server-sent events; the computation is cancelled when the response ends for any reason."""

    def __init__(self, events: AsyncIterator[str], cancel: Event) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._cancel = cancel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._cancel.set()


async def _chain(first: Answer, answers: AsyncIterator[Answer]) -> AsyncIterator[Answer]:
    yield first
    async for answer in answers:
        yield answer


async def _unknown_url(request: HttpRequest, error: Exception) -> Response:
    message = f"There is no {request.method} {request.url.path}. Available: {_ENDPOINTS}."
    return ApiError(404, message, code="unknown_url").response()
