"""Who sends a request: a login session, an API key, or without authentication an address."""

import sys
from contextvars import ContextVar
from ipaddress import IPv6Address, ip_network

from starlette.types import ASGIApp, Receive, Scope, Send

from server.host_names import address

CLIENT = "kvscope.client"  # the key of a scope under which authentication stores who has sent the request
_client: ContextVar[str] = ContextVar("client", default="")  # of the HTTP request that is being answered


def set_client(client: str) -> None:
    """Say who sends the requests of this context and those started from it."""
    _client.set(client)


class RememberClient:
    """Middleware after which `current_client` knows who has sent the request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            set_client(client_of(scope))
        await self._app(scope, receive, send)


def current_client() -> str:
    """Return who has sent the request that is being answered, as `client_of` does."""
    gradio = sys.modules.get("gradio.context")  # not imported, which takes seconds, where there is no page
    # The event of the page and of Gradio's API: they run in tasks of their own.
    event = gradio.LocalContext.request.get(None) if gradio else None
    return client_of(event.request.scope) if event and event.request else _client.get()


def client_of(scope: Scope) -> str:
    """Return who has sent a request: what authentication has stored, or the address."""
    return scope.get(CLIENT) or client_address(scope)


def client_label(client: str) -> str:
    """Return a name of a client for people: of a session or key, the start of its SHA-256."""
    kind, _, digest = client.partition(" ")
    return f"{kind} {digest[:8]}" if digest else client


def client_address(scope: Scope) -> str:
    """Return the address of a request; of IPv6 the network of 64 bits, since one user has all of its addresses."""
    host = (scope.get("client") or ("",))[0]
    found = address(host)
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or ip_network((found, 64), strict=False))
    return host
