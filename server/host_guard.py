"""Accepts requests to this machine's own names only, and from its own pages only.

A browser lets any web page send requests to 127.0.0.1. Such a page is recognised by its Origin, or, if its host name
was pointed to 127.0.0.1 (DNS rebinding), by the Host header.
"""

import socket

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from server.errors import ApiError
from server.host_names import address, host_name, is_loopback


class HostGuard:
    """Middleware in front of the UI and the API; the server listens on the address or name `host`.

    If that stands for all addresses, any IP address and the machine's own name are accepted: a rebound name is neither.
    `public_name` is the name by which a reverse proxy is reached, if there is one.
    """

    def __init__(self, app: ASGIApp, host: str, public_name: str = "") -> None:
        self._app = app
        self._names = {host_name(host), host_name(public_name)} - {""}
        self._listens_everywhere = host.strip("[]") in ("0.0.0.0", "::")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = self._refusal(Headers(scope=scope)) if scope["type"] in ("http", "websocket") else None
        if message is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocketClose(1008, message)(scope, receive, send)
        else:
            await ApiError(403, message).response()(scope, receive, send)

    def _refusal(self, headers: Headers) -> str | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_own_name(host_name(host)):
            return f"This server does not accept the host name {host!r}. Change that with --host or --public-name."
        if origin is not None and not _is_own_origin(origin, host):
            return f"Pages from {origin!r} may not use this server."
        return None

    def _is_own_name(self, name: str) -> bool:
        if name in self._names or is_loopback(name):
            return True
        is_machine = name == socket.gethostname().lower() or address(name) is not None
        return self._listens_everywhere and is_machine


def _is_own_origin(origin: str, host: str) -> bool:
    """Return whether an origin is this server, or another server on this machine when accessed by loopback."""
    scheme, _, origin_host = origin.lower().partition("://")
    if scheme not in ("http", "https") or not host_name(origin_host):
        return False
    return origin_host == host.lower() or (is_loopback(host_name(origin_host)) and is_loopback(host_name(host)))
