"""Downloads a web page that a user names: only from public addresses, within limits on size, type and time.

The address is resolved once and the connection made to what was checked, so that a name cannot mean another machine
later. Redirects are checked likewise. Proxies are not used: what they connect to cannot be checked.
"""

import socket
import time
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path, PurePosixPath
from threading import Event, Thread
from urllib.parse import unquote

import httpx

from engine.errors import Cancelled
from store.errors import KVScopeError
from store.limits import Limits

TYPES = {  # suffixes by media type
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "application/pdf": ".pdf",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/csv": ".csv",
}
SUFFIXES = {*TYPES.values(), ".htm", ".php", ".asp", ".aspx", ".jsp"}  # that a name loses
PORTS = {"http": 80, "https": 443}
UNICAST = ip_network("2000::/3")  # of IPv6; what is outside is local, or stands for an IPv4 address
TUNNELS = [ip_network(each) for each in ("2002::/16", "2001::/32")]  # to IPv4 addresses inside them
HEADERS = {"User-Agent": "KVScope", "Accept": ", ".join(TYPES), "Accept-Encoding": "identity"}
MAX_REDIRECTS = 5
STEP_TIMEOUT_S = 15.0
TIMEOUT_S = 120.0
POLL_S = 0.1


class PageUnusable(KVScopeError):
    hint = "Open it in a browser, save it as a file, and add the file."


def download(url: str, folder: Path, limits: Limits, cancel: Event) -> tuple[Path, str]:
    """Download a page into a folder; return the file and its display name.

    The thread that waits for the server is left behind after a cancellation or the time limit: a server can send bytes
    that never become a part of the answer. Raises PageUnusable, DocumentTooLarge and Cancelled.
    """
    results: list[tuple[Path, str] | Exception] = []

    def work() -> None:
        try:
            results.append(_download(url, folder, limits, cancel))
        except Exception as error:  # noqa: BLE001  raised below
            results.append(error)

    thread = Thread(target=work, name="web page", daemon=True)
    thread.start()
    deadline = time.monotonic() + TIMEOUT_S
    while thread.is_alive():
        thread.join(POLL_S)
        if cancel.is_set():
            raise Cancelled
        if time.monotonic() > deadline:
            raise PageUnusable(f"{url} took longer than {TIMEOUT_S:g} seconds.")
    (result,) = results
    if isinstance(result, Exception):
        raise result
    return result


def _download(url: str, folder: Path, limits: Limits, cancel: Event) -> tuple[Path, str]:
    url = url.strip()
    url = url if "://" in url else f"https://{url}"
    try:
        with httpx.Client(trust_env=False, timeout=STEP_TIMEOUT_S, follow_redirects=False) as client:
            for _ in range(MAX_REDIRECTS + 1):
                target = _parse(url)
                host = target.raw_host.decode("ascii")
                address = public_address(host, PORTS[target.scheme])
                with client.stream(
                    "GET",
                    target.copy_with(host=address),
                    headers={"Host": target.netloc.decode("ascii"), **HEADERS},
                    extensions={"sni_hostname": host},
                ) as response:
                    if not response.has_redirect_location:
                        return _save(response, target, folder, limits, cancel)
                    url = str(target.join(response.headers["location"]))
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        raise PageUnusable(f"{url} cannot be downloaded ({str(error) or type(error).__name__}).") from error
    raise PageUnusable(f"{url} redirects too often.")


def _parse(url: str) -> httpx.URL:
    target = httpx.URL(url)
    if target.scheme not in PORTS or not target.host or target.userinfo:
        raise PageUnusable(f"{url} is not the address of a web page, such as https://example.org/page.")
    if target.port not in (None, PORTS[target.scheme]):
        raise PageUnusable(f"{url} has another port than web pages usually have.")
    return target


def public_address(host: str, port: int) -> str:
    """Return an address of a host. Raises PageUnusable if any of its addresses is not public, and OSError."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    found = [ip_address(str(info[4][0]).partition("%")[0]) for info in infos]
    if not found or not all(map(_is_public, found)):
        raise PageUnusable(f"{host} is not a public address, so nothing is downloaded from it.")
    return str(found[0])


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        if mapped := address.ipv4_mapped:
            return _is_public(mapped)
        if address not in UNICAST or any(address in network for network in TUNNELS):
            return False
    return address.is_global and not address.is_multicast


def _save(response: httpx.Response, target: httpx.URL, folder: Path, limits: Limits, cancel: Event) -> tuple[Path, str]:
    if response.status_code != httpx.codes.OK:
        raise PageUnusable(f"{target} answered with the status {response.status_code}.")
    if response.headers.get("content-encoding", "identity").lower() != "identity":  # it could unpack to any size
        raise PageUnusable(f"{target} was sent compressed although it was not requested.")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in TYPES:
        raise PageUnusable(f"{target} is of the type {kind or 'unknown'}, which cannot be read.")
    last = PurePosixPath(unquote(target.path))
    stem = last.stem if last.suffix.lower() in SUFFIXES else last.name
    name = f"{stem or target.host}{TYPES[kind]}"
    path, size = folder / f"page{TYPES[kind]}", 0
    with path.open("wb") as file:
        for part in response.iter_bytes():
            size += len(part)
            limits.check_file(size, name)
            if cancel.is_set():
                raise Cancelled
            file.write(part)
    charset = (response.charset_encoding or "utf-8").lower()
    if charset not in ("utf-8", "utf8") and kind != "application/pdf":  # a page may not say so itself
        with suppress(LookupError):
            path.write_text(path.read_text(charset, errors="replace"), encoding="utf-8-sig", newline="")
    return path, name
