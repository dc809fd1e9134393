"""Answers on the port while the libraries are imported, which takes seconds: the page then opens by itself.

Only the standard library is imported, so that it answers at once. It needs no password: it shows nothing but this page.
"""

import os
import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Thread

from server.headers import HEADERS, policy

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>KVScope</title>
<style>
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { display: grid; place-content: center; min-height: 90vh; margin: 0 1.5rem; text-align: center; }
  h1 { margin: 0 0 .5rem; font-size: 1.5rem; }
  p { margin: 0; opacity: .75; }
  progress { width: 16rem; max-width: 100%; margin: 1.25rem auto 0; accent-color: #0f766e; }
</style>
<main>
  <h1>KVScope is starting</h1>
  <p role="status">Loading libraries. The page opens by itself in a few seconds.</p>
  <progress aria-label="Loading libraries"></progress>
</main>
<script>
  const check = async () => {
    try {
      if (!(await fetch("/starting", {cache: "no-store"})).ok) return location.reload();  // the app has no such path
    } catch {}  // between this server and the app's
    setTimeout(check, 300);
  };
  check();
</script>
</html>
"""
_SCRIPT = _PAGE.partition("<script>")[2].partition("</script>")[0]
_STATE = '{"status": "starting", "detail": "Loading libraries"}'


class StartingPage:
    """Serves the page at `/` and a state everywhere else with status 503, and with 200 at `/starting`, until closed.

    Raises OSError if the port cannot be used.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = _Server(host, port)
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), name="starting page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Free the port. Further calls do nothing."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    timeout = 5  # of a connection that sends nothing

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        is_page = path == "/"
        body = (_PAGE if is_page else _STATE).encode()
        self.send_response(HTTPStatus.OK if path == "/starting" else HTTPStatus.SERVICE_UNAVAILABLE)
        self.send_header("Content-Type", "text/html; charset=utf-8" if is_page else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "1")
        self.send_header("Cache-Control", "no-store")
        for name, value in {**HEADERS, "Content-Security-Policy": policy(_SCRIPT.encode())}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: browsers ask for icons and more."""


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False  # a browser keeps a connection open
    allow_reuse_address = os.name != "nt"  # on Windows, another program could take the port

    def __init__(self, host: str, port: int) -> None:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
        self.address_family, _, _, _, address = min(found, key=lambda each: each[0] is not socket.AF_INET)
        super().__init__((str(address[0]), port), _Handler)

    def handle_error(self, *args: object) -> None:
        """Ignore a browser that has gone."""
