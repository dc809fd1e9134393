"""HTTP routes beside the UI: `launch(app_kwargs=app_kwargs(...))` puts them in front of Gradio's own."""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from itertools import chain
from threading import Event, Lock
from typing import Any

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, StreamingResponse
from fastapi.routing import APIRoute
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from assets import page_script
from backend.interface.backend import Backend
from backend.interface.limits import MAX_QUESTIONS
from engine.method import MethodInfo, default_method
from engine.request import Answer
from server.access import LOCAL, Access
from server.auth import AuthGuard
from server.bodies import size_label
from server.chat import OWNER, ChatRequest, completion_body, completion_events, parse_model
from server.client import CLIENT, RememberClient
from server.compression import CompressPage
from server.docs_page import docs_page
from server.errors import RETRY_S, ApiError, ErrorResponse, to_api_error
from server.gradio_errors import GradioErrors, invalid_request
from server.headers import SecurityHeaders
from server.host_guard import HostGuard
from server.limits import LimitGuard, UploadLimits
from server.mcp.tools import Tools
from server.mcp.transports import PATH, HttpEndpoint
from server.page_picture import page_route
from server.translations import translations
from server.upload_guard import UploadGuard
from store.audit import NO_LOG, AuditLog
from store.errors import KVScopeError

MAX_BODY_BYTES = 2**20  # a conversation of some hundred pages
_ENDPOINTS = "/v1/chat/completions, /v1/models, /v1/docs, /v1/openapi.json, /healthz and /metrics"
_CONTENT: dict[str, Any] = {"application/json": {}, "text/event-stream": {}}


def app_kwargs(
    backend: Backend,
    host: str,
    access: Access = LOCAL,
    max_questions: int = MAX_QUESTIONS,
    audit: AuditLog = NO_LOG,
) -> dict[str, Any]:
    """Return the `app_kwargs` of Gradio's `launch`.

    host           the address or name the server listens on
    max_questions  that run at a time for clients of the HTTP API, and as many for those of MCP
    audit          the log of logins
    """

    def health(request: HttpRequest) -> Response:
        status = backend.status()
        state = "ok" if status.ready else "failed" if status.failed else "loading"
        is_known = request.scope.get(CLIENT, True)  # there is no such key without authentication
        detail = {"detail": status.message} if is_known else {}
        return JSONResponse({"status": state, **detail}, 200 if status.ready else 503)

    def metrics(request: HttpRequest) -> Response:
        return PlainTextResponse(backend.metrics_text(), media_type="text/plain; version=0.0.4")

    def ratings(request: HttpRequest) -> Response:
        if request.headers.get("sec-fetch-site") == "cross-site":
            return ApiError(403, "Open the Library page to export the ratings.").response()
        headers = {"Content-Disposition": "attachment; filename=kvscope-ratings.jsonl"}
        try:
            return PlainTextResponse(backend.feedback.export(), headers=headers, media_type="application/jsonl")
        except KVScopeError as error:
            return to_api_error(error).response()

    exporting = Lock()

    def export(request: HttpRequest) -> Response:
        headers = {"Content-Disposition": "attachment; filename=kvscope-library.zip"}
        if request.headers.get("sec-fetch-site") == "cross-site":  # another site's page cannot read it, but start it
            return ApiError(403, "Open the Library page to export the library.").response()
        if request.method == "HEAD":
            return Response(media_type="application/zip", headers=headers)
        if not exporting.acquire(blocking=False):
            return ApiError(429, "The library is being exported. Try again later.", retry_s=RETRY_S).response()
        try:
            file = tempfile.TemporaryFile()  # noqa: SIM115  closed by the response
            try:
                backend.export(file)
            except BaseException:
                file.close()
                raise
        except Exception as error:  # noqa: BLE001  sent to the client
            return to_api_error(error).response()
        finally:
            exporting.release()
        file.seek(0)
        chunks = iter(lambda: file.read(2**20), b"")
        close = BackgroundTask(file.close)
        return StreamingResponse(chunks, media_type="application/zip", headers=headers, background=close)

    uploads = UploadLimits(access.limits) if access.limits else None
    mcp = HttpEndpoint(Tools(backend, max_questions, uploads))
    routes = [
        Route("/healthz", health),
        Route("/metrics", metrics),
        Route("/library.zip", export),
        Route("/ratings.jsonl", ratings),
        Route("/page.png", page_route(backend)),
        Route("/translations/{language}.json", translations),
        Route(PATH, mcp, methods=["GET", "POST", "DELETE"]),
        Mount("/v1", _openai_api(backend, max_questions)),
    ]
    middleware = [
        Middleware(CompressPage),
        Middleware(SecurityHeaders, script=page_script()),
        Middleware(HostGuard, host=host, public_name=access.public_name),
        *([Middleware(AuthGuard, credentials=access.credentials, audit=audit)] if access.credentials else []),
        Middleware(RememberClient),
        *([Middleware(LimitGuard, limits=access.limits, uploads=uploads)] if access.limits else []),
        Middleware(UploadGuard),
        Middleware(GradioErrors),
    ]
    handlers = {RequestValidationError: invalid_request}
    return {"routes": routes, "middleware": middleware, "exception_handlers": handlers, "lifespan": mcp.lifespan}


def _openai_api(backend: Backend, max_questions: int) -> FastAPI:
    """Return the OpenAI-compatible API. The docstrings of its endpoints are part of its documentation."""
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
    created = int(time.time())
    running: set[asyncio.Task[None]] = set()  # one per chat completion, until its response has been sent

    def model_object(name: str, method: MethodInfo) -> dict[str, Any]:
        about = {
            "method": method.name,
            "label": method.label,
            "about": method.description,
            "has_ratio": method.has_ratio,
        }
        return {"id": name, "object": "model", "created": created, "owned_by": OWNER, "kvscope": about}

    @api.head("/models", include_in_schema=False)
    @api.get("/models")
    def list_models() -> dict[str, Any]:
        """List the methods as models, the default first."""
        methods = backend.methods()
        names = {OWNER: default_method(methods)} | {f"{OWNER}/{method.name}": method for method in methods}
        return {"object": "list", "data": [model_object(name, method) for name, method in names.items()]}

    @api.head("/models/{name:path}", include_in_schema=False)
    @api.get("/models/{name:path}")
    def get_model(name: str) -> dict[str, Any]:
        """Return the model of this name, with or without a recompute ratio."""
        method, _ = parse_model(name, backend.methods())
        return model_object(name, method)

    @api.post("/chat/completions", responses={200: {"description": "A completion, or its chunks", "content": _CONTENT}})
    async def create_chat_completion(chat: ChatRequest, request: HttpRequest) -> Response:
        """Answer a question from the documents.

        The answer, or the last chunk of a stream, has KVScope's metrics and sources under `kvscope`. Closing the
        connection cancels the request.
        """
        engine_request = chat.to_request(backend.methods())
        if len(running) >= max_questions:
            limit = f"{max_questions} requests are already running, which is the limit (--max-questions)"
            message = f"{limit}. Try again when one has finished."
            raise ApiError(429, message, code="rate_limit_exceeded", retry_s=RETRY_S)
        cancel = Event()
        task = asyncio.create_task(_cancel_at_end(request, cancel))
        running.add(task)
        task.add_done_callback(running.discard)
        answers = (answer for answer in backend.ask(engine_request, cancel) if answer.state != "searching")
        if not chat.stream:
            *_, last = await run_in_threadpool(list, answers)
            return JSONResponse(completion_body(chat.model, last))
        first = await run_in_threadpool(next, answers)  # up to here, an error changes the status
        include_usage = bool(chat.stream_options and chat.stream_options.include_usage)
        events = completion_events(chat.model, chain([first], answers), include_usage)
        return _EventStream(events, answers, cancel)

    @api.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(api.openapi()))

    return api


class _LimitedRequest(HttpRequest):
    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the body in parts. The size is counted while reading: a client may leave out the Content-Length."""
        size = 0
        async for part in super().stream():
            size += len(part)
            if size > MAX_BODY_BYTES:
                limit = size_label(MAX_BODY_BYTES)
                raise ApiError(413, f"The request is larger than {limit}. Leave out the oldest messages.")
            yield part


class _OpenAIRoute(APIRoute):
    """A route that accepts JSON bodies of limited size only, and reports every error in OpenAI's format."""

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_errors(request: HttpRequest) -> Response:
            try:
                if request.method == "POST":
                    # Web pages of other origins cannot send JSON without a preflight.
                    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                    if content_type != "application/json":
                        message = f"The Content-Type must be application/json, not {content_type or 'missing'}."
                        raise ApiError(415, message)
                    request = _LimitedRequest(request.scope, request.receive)
                    await request.body()  # here, because FastAPI would hide its errors
                return await handle(request)
            except Exception as error:  # noqa: BLE001  sent to the client
                return to_api_error(error).response()

        return handle_errors


class _EventStream(StreamingResponse):
    """Server-sent events; the computation is stopped when the response ends for any reason."""

    def __init__(self, events: Iterator[str], answers: Generator[Answer, None, None], cancel: Event) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._answers = answers
        self._cancel = cancel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:  # no thread is in the generator any more
            self._cancel.set()
            await run_in_threadpool(self._answers.close)


async def _cancel_at_end(request: HttpRequest, cancel: Event) -> None:
    """Set `cancel` when the response has been sent or the client disconnects. Call this after reading the body."""
    try:
        while (await request.receive())["type"] != "http.disconnect":
            pass
    finally:
        cancel.set()


async def _unknown_url(request: HttpRequest, error: Exception) -> Response:
    message = f"There is no {request.method} {request.url.path}. Available: {_ENDPOINTS}."
    return ApiError(404, message, code="unknown_url").response()
