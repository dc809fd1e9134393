"""Web pages: only public addresses are reached, also over redirects and names, and within the limits."""

import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest

from backend.services import web_page
from backend.services.web_page import PageUnusable, download, public_address
from engine.errors import BadRequest, Cancelled
from store.errors import DocumentTooLarge
from store.ingest import parse
from store.limits import DEFAULT_LIMITS, Limits

TIDES = "\u043f\u0440\u0438\u043b\u0438\u0432"
PAGES = {
    "/Python_3.11": ("text/html", b"<p>Python"),
    "/tides.html": ("text/html; charset=utf-8", b"<p>High water is at noon."),
    "/paper": ("application/pdf", b"%PDF-1.7"),
    "/": ("text/plain", b"Welcome"),
    "/photo.jpg": ("image/jpeg", b"\xff\xd8"),
    "/packed": ("text/plain", b""),
    "/long": ("text/plain", b"x" * (2**20 + 1)),
    "/russian": ("text/html; charset=koi8-r", f'<meta charset="utf-8"><p>{TIDES}'.encode("koi8-r")),
    "/unknown": ("text/plain; charset=nothing", b"tides"),
}
MOVED = {"/moved": "/tides.html", "/inside": "http://127.0.0.1/", "/loop": "/loop", "/file": "file:///etc/passwd"}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.hosts.append(self.headers["Host"])
        while self.path == "/endless" and not self.server.is_closing:
            self.send_response_only(100)
            self.end_headers()
            time.sleep(0.05)
        if self.path in MOVED:
            self.send_response(302)
            self.send_header("Location", MOVED[self.path])
            self.end_headers()
            return
        kind, content = PAGES.get(self.path, ("text/html", b""))
        self.send_response(200 if self.path in PAGES else 404)
        self.send_header("Content-Type", kind)
        if self.path == "/packed":
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def site(monkeypatch):
    """A server on this machine that stands for tides.example, whose address counts as public."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.hosts, server.is_closing = [], False
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    resolve = socket.getaddrinfo

    def resolved(host, port, *arguments, **options):
        return resolve("127.0.0.1" if host == "tides.example" else host, port, *arguments, **options)

    def public(host, port):
        return "127.0.0.1" if host == "tides.example" else public_address(host, port)

    monkeypatch.setattr(web_page, "PORTS", {"http": server.server_port, "https": 443})
    monkeypatch.setattr(web_page, "public_address", public)
    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    server.url = f"http://tides.example:{server.server_port}"
    yield server
    server.is_closing = True
    server.shutdown()
    server.server_close()


def fetch(url, folder, limits=DEFAULT_LIMITS, cancel=None):
    return download(url, folder, limits, cancel or Event())


@pytest.mark.parametrize(
    "path, name",
    [
        ("/tides.html", "tides.html"),
        ("/moved", "tides.html"),
        ("/paper", "paper.pdf"),
        ("/", "tides.example.txt"),
        ("/Python_3.11", "Python_3.11.html"),
    ],
)
def test_a_page_is_saved_under_its_name_with_the_suffix_of_its_type(site, tmp_path, path, name):
    file, display_name = fetch(site.url + path, tmp_path)
    assert display_name == name and file.read_bytes() == PAGES[MOVED.get(path, path)][1]
    assert set(site.hosts) == {site.url.removeprefix("http://")}


@pytest.mark.parametrize(
    "path, message",
    [
        ("/photo.jpg", "of the type image/jpeg"),
        ("/missing", "answered with the status 404"),
        ("/loop", "redirects too often"),
        ("/packed", "was sent compressed"),
        ("/inside", "has another port|is not a public address"),
        ("/file", "is not the address of a web page"),
    ],
)
def test_what_cannot_be_added_is_refused_with_the_reason(site, tmp_path, path, message):
    with pytest.raises(PageUnusable, match=message):
        fetch(site.url + path, tmp_path)


def test_size_and_time_are_limited_and_a_download_can_be_cancelled(site, tmp_path, monkeypatch):
    with pytest.raises(DocumentTooLarge, match="and the limit is 1 MiB"):
        fetch(f"{site.url}/long", tmp_path, Limits(max_file_mib=1))
    cancel = Event()
    cancel.set()
    with pytest.raises(Cancelled):
        fetch(f"{site.url}/tides.html", tmp_path, cancel=cancel)


def test_a_server_that_never_answers_is_left_after_the_time_limit(site, tmp_path, monkeypatch):
    monkeypatch.setattr(web_page, "TIMEOUT_S", 0.3)
    with pytest.raises(PageUnusable, match="took longer"):
        fetch(f"{site.url}/endless", tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "ftp://example.org/a",
            "file:///etc/passwd",
            "https://user:secret@example.org/",
            "https://",
            "http://[::1",
            "",
        ),
        *("http://example.org:22/", "https://example.org:80/", "javascript:alert(1)"),
    ],
)
def test_other_addresses_than_those_of_web_pages_are_refused(tmp_path, url):
    with pytest.raises(PageUnusable):
        fetch(url, tmp_path)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "10.0.0.1",
            "192.168.1.1",
            "172.16.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
        ),
        *(
            "::1",
            "fe80::1",
            "fc00::1",
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:0a00:0001::1",
            "2001::1",
            *("ff02::1", "fec0::1", "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b:1::1"),
        ),
    ],
)
def test_addresses_inside_a_network_are_refused_whatever_name_means_them(monkeypatch, address):
    infos = [(0, 0, 0, "", (each, 443)) for each in ("93.184.215.14", address)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **options: infos)
    with pytest.raises(PageUnusable, match="not a public address"):
        public_address("rebinding.example", 443)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **options: infos[:1])
    assert public_address("honest.example", 443) == "93.184.215.14"


def test_a_page_becomes_a_document_and_errors_are_messages_of_its_progress(start, site):
    backend = start()
    with pytest.raises(BadRequest, match="--web-pages"):
        list(backend.ingest_web_page(f"{site.url}/tides.html", Event()))
    backend.loader.settings = backend.loader.settings.updated({"web_pages": True})
    *_, (ended,) = backend.ingest_web_page(f"{site.url}/tides.html", Event())
    assert ended.stage == "done" and [document.name for document in backend.documents()] == ["tides.html"]
    *_, (failed,) = backend.ingest_web_page("http://127.0.0.1/", Event())
    assert failed.stage == "failed" and "save it as a file" in failed.message


def test_the_charset_that_the_server_names_is_used(site, tmp_path):
    path, name = fetch(f"{site.url}/russian", tmp_path)
    assert TIDES in parse(path.read_bytes(), name).text
    assert fetch(f"{site.url}/unknown", tmp_path)[0].read_text() == "tides"
