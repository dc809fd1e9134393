"""Who may talk to the server: this machine, and whoever reaches it under the address that it was told to listen on.

A web page elsewhere cannot be kept from sending requests to 127.0.0.1 by the person's own browser. It gives itself
away by its Origin; and where it made its own name point to 127.0.0.1 (DNS rebinding), by that name in Host.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from server.errors import Refused

_EVERYWHERE = ("0.0.0.0", "::")


class Guard:
    """Middleware in front of the page and everything beside it.

    host  the address or name the server listens on. Where that is all addresses, any address is taken for the
          server's, and the machine's own name: a rebound name is neither.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app, self._host = app, _name(host)
        self._everywhere = host.strip("[]") in _EVERYWHERE
        self._machine = socket.gethostname().lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refusal(Headers(scope=scope)) if scope["type"] in ("http", "websocket") else None
        if refused is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocketClose(1008, str(refused))(scope, receive, send)
        else:
            await refused.response()(scope, receive, send)

    def _refusal(self, headers: Headers) -> Refused | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_mine(_name(host)):
            return Refused(403, f"This server is not called {host!r}. Start it with --host to give it a name.")
        if origin is not None and not _is_from(origin, host):
            return Refused(403, f"Pages of {origin!r} may not use this server.")
        return None

    def _is_mine(self, name: str) -> bool:
        if name == self._host or _is_loopback(name):
            return bool(name)
        return self._everywhere and (name == self._machine or _address(name) is not None)


def _is_from(origin: str, host: str) -> bool:
    """Return whether a page of `origin` is the server's own, or one that this machine serves to itself."""
    scheme, _, place = origin.lower().partition("://")
    if scheme not in ("http", "https") or not _name(place):
        return False
    return place == host.lower() or (_is_loopback(_name(place)) and _is_loopback(_name(host)))


def _name(host: str) -> str:
    """Return the host without its port and brackets; empty if it is none."""
    try:
        bare = host if _address(host) else urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
    return bare.lower().rstrip(".")


def _is_loopback(name: str) -> bool:
    address = _address(name)
    return address.is_loopback if address else name == "localhost" or name.endswith(".localhost")


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None
