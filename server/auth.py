"""Authentication in front of everything else: a login page and sessions for browsers, API keys for programs.

Without a session or key, every path is refused except those listed here, so that a new route is protected by itself.
"""

import asyncio
import hashlib
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from server.access import Credentials
from server.bodies import read_body
from server.client import CLIENT, client_address, client_label
from server.errors import ApiError
from server.limits import RateLimit, check
from server.login_page import login_page
from server.translations import preferred_language
from store.audit import NO_LOG, AuditLog

LOGIN, LOGOUT = "/login", "/logout"
PUBLIC = {"/healthz", "/gradio_api/startup-events"}  # the latter is called by Gradio's launch; it returns true or false
COOKIE = "kvscope_session"
IDLE_S, MAX_AGE_S = 12 * 3600.0, 7 * 24 * 3600.0  # a session ends this long after its last request, and its login
MAX_SESSIONS = 1000  # the one not used for the longest time is ended first
MAX_FORM_BYTES = 4096
FAILURES, ALL_FAILURES = 5, 60  # wrong passwords per minute: from one address, and from all
_MESSAGE = "Log in, or send an API key as 'Authorization: Bearer KEY'."
_FOREIGN = "Pages of another origin may not use this session. A proxy must pass on the Host header."
_WRONG = "The password is wrong."
_NO_PASSWORD = "Type the password."
log = logging.getLogger("kvscope")


class Sessions:
    """The login sessions, in memory only: by the SHA-256 of their tokens, when they were started and last used."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._times: OrderedDict[str, tuple[float, float]] = OrderedDict()  # the one last used is at the end

    def start(self) -> str:
        """Start a session and return its token."""
        token = secrets.token_urlsafe(32)
        self._times[_digest(token)] = (self._clock(), self._clock())
        if len(self._times) > MAX_SESSIONS:
            self._times.popitem(last=False)
        return token

    def find(self, token: str) -> str | None:
        """Return a name for the session with this token, which is thereby used, or None if there is no such session."""
        name, now = _digest(token), self._clock()
        started, used = self._times.get(name, (-MAX_AGE_S, -IDLE_S))
        if now - started >= MAX_AGE_S or now - used >= IDLE_S:
            self._times.pop(name, None)
            return None
        self._times[name] = (started, now)
        self._times.move_to_end(name)
        return name

    def end(self, token: str) -> None:
        self._times.pop(_digest(token), None)


class AuthGuard:
    """Middleware that answers the login page and passes on only what has a session or a key."""

    def __init__(
        self,
        app: ASGIApp,
        credentials: Credentials,
        audit: AuditLog = NO_LOG,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._app = app
        self._credentials = credentials
        self._audit = audit
        self._sessions = Sessions(clock)
        self._failures = RateLimit(FAILURES, 60, clock)
        self._all_failures = RateLimit(ALL_FAILURES, 60, clock)
        self._recorded = RateLimit(1, 60, clock)  # throttled logins of an address; there can be any number
        self._all_recorded = RateLimit(ALL_FAILURES, 60, clock)
        self._verifying = asyncio.Lock()  # one at a time: each needs a core and 64 MiB

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        client = scope[CLIENT] = self._client(HTTPConnection(scope))
        if scope["type"] == "http" and scope["path"] in (LOGIN, LOGOUT):
            try:
                response = await self._log_in_or_out(Request(scope, receive), client)
            except ClientDisconnect:
                return
            await response(scope, receive, send)
        elif client or (scope["type"] == "http" and scope["path"] in PUBLIC):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await _refusal(HTTPConnection(scope))(scope, receive, send)
        else:
            await WebSocketClose(1008, _MESSAGE)(scope, receive, send)

    def _client(self, connection: HTTPConnection) -> str | None:
        """Return a name for the session or key of a request, or None."""
        scheme, _, key = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._credentials.has_key(key.strip()):
            return f"key {_digest(key.strip())}"
        name = None if _is_foreign(connection) else self._sessions.find(connection.cookies.get(COOKIE, ""))
        return name and _session(name)

    async def _log_in_or_out(self, request: Request, client: str | None) -> Response:
        token = request.cookies.get(COOKIE, "")
        if request.scope["path"] == LOGOUT:
            if client and request.method == "POST":
                self._sessions.end(token)
                await self._record(client, "ok", "logout")
            return RedirectResponse("/", 303)
        if request.method == "POST":
            try:
                await self._check_password(request)
            except ApiError as error:
                return _page(request, error)
            self._sessions.end(token)
            response = RedirectResponse("/", 303)
            is_secure = request.scope["scheme"] == "https"
            token = self._sessions.start()
            response.set_cookie(COOKIE, token, int(MAX_AGE_S), httponly=True, samesite="strict", secure=is_secure)
            await self._record(_session(_digest(token)), "ok", address=client_address(request.scope))
            return response
        return RedirectResponse("/", 303) if client else _page(request)

    async def _check_password(self, request: Request) -> None:
        """Return if the form has the right password. Raises ApiError, and ClientDisconnect."""
        body = await read_body(request, MAX_FORM_BYTES)
        try:
            password = parse_qs(body.decode("ascii"), errors="strict", max_num_fields=9)["password"][0]
        except (ValueError, KeyError):
            raise ApiError(400, _NO_PASSWORD) from None
        address = client_address(request.scope)
        try:
            check(self._failures, address, "wrong passwords")  # counted before it is known, for many requests at once
            check(self._all_failures, "", "wrong passwords")
        except ApiError:
            if not self._recorded.take(address) and not self._all_recorded.take(""):
                await self._record(address, "throttled")
            raise
        async with self._verifying:
            is_right = await run_in_threadpool(self._credentials.accepts, password)
        if not is_right:
            log.warning("Wrong password from %r", address)
            await self._record(address, "failed")
            raise ApiError(401, _WRONG)
        self._failures.take(address, -1)
        self._all_failures.take("", -1)

    async def _record(self, client: str, outcome: str, action: str = "login", **details: str) -> None:
        await run_in_threadpool(self._audit.record, client_label(client), action, outcome, **details)


def _session(name: str) -> str:
    """Return the client that a session is, as limits and the audit log know it."""
    return f"session {name}"


def _page(request: Request, error: ApiError | None = None) -> Response:
    status, message, headers = (error.status, error.message, error.headers()) if error else (200, "", {})
    language = preferred_language(request.headers.get("accept-language", ""))
    return HTMLResponse(login_page(message, language), status, {"Cache-Control": "no-store", **headers})


def _refusal(connection: HTTPConnection) -> Response:
    """Return the login page's address to a browser that opens the page, and an error to all others."""
    path = connection.scope["path"]
    if path == "/" and "text/html" in connection.headers.get("accept", ""):
        return RedirectResponse(LOGIN, 303)
    if COOKIE in connection.cookies and _is_foreign(connection):
        return ApiError(403, _FOREIGN).response(path)
    return ApiError(401, _MESSAGE, code="invalid_api_key").response(path)


def _is_foreign(connection: HTTPConnection) -> bool:
    """Return whether a page of another origin sends a request. Another port of the same host has the same cookies."""
    _, _, origin = connection.headers.get("origin", "").lower().partition("://")
    return bool(origin) and origin != connection.headers.get("host", "").lower()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
