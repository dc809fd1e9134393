"""Accepts requests to this machine's own names only, and from its own pages only.

A browser lets any web page send requests to 127.0.0.1. Such a page is recognised by its Origin, or, if its host name
was pointed to 127.0.0.1 (DNS rebinding), by the Host header.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from server.errors import ApiError


class HostGuard:
    """Middleware in front of the UI and the API; the server listens on the address or name `host`.

    If that stands for all addresses, any IP address and the machine's own name are accepted: a rebound name is neither.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._host = _host_name(host)
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
        if not self._is_own_name(_host_name(host)):
            return f"This server does not accept the host name {host!r}. Start it with --host to change that."
        if origin is not None and not _is_own_origin(origin, host):
            return f"Pages from {origin!r} may not use this server."
        return None

    def _is_own_name(self, name: str) -> bool:
        if name == self._host or _is_loopback(name):
            return bool(name)
        is_machine = name == socket.gethostname().lower() or _address(name) is not None
        return self._listens_everywhere and is_machine


def _is_own_origin(origin: str, host: str) -> bool:
    """Return whether an origin is this server, or another server on this machine when accessed by loopback."""
    scheme, _, origin_host = origin.lower().partition("://")
    if scheme not in ("http", "https") or not _host_name(origin_host):
        return False
    return origin_host == host.lower() or (_is_loopback(_host_name(origin_host)) and _is_loopback(_host_name(host)))


def _host_name(host: str) -> str:
    """Return a host without port and brackets, in lower case; empty if it is invalid."""
    try:
        name = host if _address(host) else urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
    return name.lower().rstrip(".")


def _is_loopback(name: str) -> bool:
    address = _address(name)
    return address.is_loopback if address else name == "localhost" or name.endswith(".localhost")


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None
