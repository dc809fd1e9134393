"""Limits on what each client may do, so that one cannot keep the server from the others.

A client is a login session, an API key, or without authentication an address.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from threading import Event, Lock
from time import monotonic
from typing import Any, TypeVar, cast

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from backend.interface.backend import Backend
from engine.analysis.comparison import CompareRequest, Comparison
from engine.analysis.inspection import InspectionStep
from engine.request import Answer, Request
from server.access import AccessSettings
from server.bodies import is_form
from server.client import client_of, current_client
from server.errors import ApiError, TooManyQuestions
from store.types import Hit

MAX_CLIENTS = 10_000  # of each rate; the one not seen for the longest time is forgotten first
Step = TypeVar("Step")


class RateLimit:
    """A token bucket for each client: `amount` at once, and the same again within each `period_s`. Thread-safe."""

    def __init__(self, amount: float, period_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._amount = amount
        self._per_second = amount / period_s
        self._clock = clock
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what was used, and when that was computed
        self._lock = Lock()

    def take(self, client: str, amount: float = 1) -> float:
        """Use an amount and return 0; if it is not available, return after how many seconds it is.

        A negative amount is given back.
        """
        with self._lock:
            now = self._clock()
            used, since = self._used.get(client, (0.0, now))
            used = max(0.0, used - (now - since) * self._per_second)
            wait_s = max(0.0, (used + amount - self._amount) / self._per_second)
            self._used[client] = (used if wait_s else used + amount, now)
            self._used.move_to_end(client)
            if len(self._used) > MAX_CLIENTS:
                self._used.popitem(last=False)
            return wait_s


class UploadLimits:
    """How many files, and how many bytes, each client may upload in an hour, in whatever way."""

    def __init__(self, limits: AccessSettings, clock: Callable[[], float] = monotonic) -> None:
        self._limits = limits
        self._uploads = RateLimit(limits.client_uploads, 3600, clock)
        self._bytes = RateLimit(limits.client_upload_mib * 2**20, 3600, clock)

    def check(self, client: str, size_bytes: int) -> None:
        """Count an upload. Raises ApiError (429) if it is one too many, (413) if it alone exceeds the limit."""
        max_mib = self._limits.client_upload_mib
        if size_bytes > max_mib * 2**20:
            limit = f"{max_mib:,} MiB of uploads per hour (--client-upload-mib)"
            raise ApiError(413, f"This upload is larger than the limit of {limit}.")
        check(self._uploads, client, "uploads per hour", limit=f"{self._limits.client_uploads:,} (--client-uploads)")
        limit = f"{max_mib:,} (--client-upload-mib)"
        check(self._bytes, client, "MiB of uploads per hour", size_bytes, limit)


class LimitGuard:
    """Middleware that limits requests, and uploads as forms."""

    def __init__(
        self,
        app: ASGIApp,
        limits: AccessSettings,
        uploads: UploadLimits | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._app = app
        self._limits = limits
        self._requests = RateLimit(limits.client_requests, 60, clock)
        self._uploads = uploads or UploadLimits(limits, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = client_of(scope)
        try:
            limit = f"{self._limits.client_requests:,} (--client-requests)"
            check(self._requests, client, "requests per minute", limit=limit)
            if is_form(scope):
                self._check_upload(client, Headers(scope=scope))
        except ApiError as error:
            await error.response(scope["path"])(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _check_upload(self, client: str, headers: Headers) -> None:
        length = headers.get("content-length", "")
        if not length.isdecimal() or "transfer-encoding" in headers:
            raise ApiError(411, "An upload must have a Content-Length.")
        self._uploads.check(client, int(length))


class _LimitedBackend:
    """A backend whose clients may each run `questions` questions at a time; the rest is the other backend's."""

    def __init__(self, backend: Backend, questions: int) -> None:
        self._backend = backend
        self._limit = questions
        self._running = Counter[str]()
        self._lock = Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def ask(self, request: Request, cancel: Event) -> Iterator[Answer]:
        return self._run(self._backend.ask(request, cancel))

    def search(self, request: Request) -> list[Hit]:
        with self._counted():
            return self._backend.search(request)

    def inspect(self, request: Request, cancel: Event) -> Iterator[InspectionStep]:
        return self._run(self._backend.inspect(request, cancel))

    def compare(self, request: CompareRequest, cancel: Event) -> Iterator[Comparison]:
        return self._run(self._backend.compare(request, cancel))

    def _run(self, steps: Iterator[Step]) -> Generator[Step, None, None]:
        with self._counted():
            yield from steps

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Enclose a question. Raises TooManyQuestions."""
        client = current_client()
        with self._lock:
            if self._running[client] >= self._limit:
                limit = f"{self._limit} of your questions are already being answered"
                raise TooManyQuestions(f"{limit}, which is the limit (--client-questions).")
            self._running[client] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[client] -= 1
                self._running += Counter()  # drops those who have none


def limit_questions(backend: Backend, limits: AccessSettings | None) -> Backend:
    """Return the backend with limits on the questions that each client may run at a time."""
    return cast(Backend, _LimitedBackend(backend, limits.client_questions)) if limits else backend


def check(rate: RateLimit, client: str, what: str, amount: float = 1, limit: str = "") -> None:
    """Use an amount of a rate. Raises ApiError (429), with the limit and its flag, if it is not available."""
    if wait_s := rate.take(client, amount):
        message = f"Too many {what}{limit and f'; the limit is {limit}'}. Try again in {math.ceil(wait_s)} seconds."
        raise ApiError(429, message, code="rate_limit_exceeded", retry_s=math.ceil(wait_s))
