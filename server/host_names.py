"""Host names and addresses, as settings and headers contain them. Only the standard library is imported."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

_OTHER_PARTS = frozenset("/?#@\\")  # of a URL, which would change where Starlette sees its path


def host_name(host: str) -> str:
    """Return a host without port and brackets, in lower case; empty if it is invalid."""
    if not _OTHER_PARTS.isdisjoint(host):
        return ""
    try:
        name = host if address(host) else urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
    return name.lower().rstrip(".")


def is_loopback(name: str) -> bool:
    """Return whether only this machine can connect to a name from `host_name`."""
    found = address(name)
    return found.is_loopback if found else name == "localhost" or name.endswith(".localhost")


def address(name: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that a name is, or None."""
    try:
        return ip_address(name)
    except ValueError:
        return None
