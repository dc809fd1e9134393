"""The transports: streamable HTTP behind the middleware of `server.routes`, and stdin and stdout."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TextIO

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from server.bodies import MAX_EVENT_BYTES
from server.client import client_of, set_client
from server.mcp.tools import Tools

PATH = "/mcp"
STDIO_CLIENT = "stdio"  # in the audit log
MAX_SESSIONS = 1000  # of protocol versions that have them; each ends 30 minutes after its last request
MAX_CLIENT_SESSIONS = 100  # of each client, so that one cannot have all


class _SessionManager(StreamableHTTPSessionManager):
    """Also limits the sessions of each client. Overrides a method that is not public: the library is pinned."""

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        num_open = sum(owner == requestor for owner in self._session_owners.values())
        return super()._admit_session(requestor) if num_open < MAX_CLIENT_SESSIONS else None


class HttpEndpoint:
    """ASGI application for the streamable HTTP transport; runs within `lifespan`. A session is its client's only."""

    def __init__(self, tools: Tools) -> None:
        self._server = tools.server()

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        self._manager = _SessionManager(self._server, max_request_body_size=MAX_EVENT_BYTES, max_sessions=MAX_SESSIONS)
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        owner = AuthenticatedUser(AccessToken(token="", client_id=client_of(scope), scopes=[]))
        await self._manager.handle_request({**scope, "user": owner}, receive, send)


def serve_stdio(tools: Tools, output: TextIO) -> None:
    """Serve one client on stdin and `output` until stdin ends."""

    async def serve() -> None:
        server = tools.server()
        async with stdio_server(stdout=anyio.wrap_file(output)) as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    set_client(STDIO_CLIENT)
    anyio.run(serve)
