"""A file in a request must be an upload: no endpoint of the page connects to a host that a client names."""

import asyncio
import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
import safehttpx
from gradio.processing_utils import ssrf_protected_download
from gradio_client import Client, handle_file

from server.upload_guard import UploadGuard

META = {"meta": {"_type": "gradio.FileData"}}
RESOLVE = socket.getaddrinfo


@pytest.fixture(scope="module", autouse=True)
def without_uvloop():
    """Hide uvloop from the server, because it resolves names without Python's functions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "uvloop", None)
        yield


@pytest.fixture
def http(url):
    with httpx.Client(base_url=url, timeout=60) as client:
        yield client


class Listener(ThreadingHTTPServer):
    """A server on this machine under the public name `files.example`: records its requests and the names resolved."""

    def __init__(self):
        self.seen = []
        super().__init__(("127.0.0.1", 0), Handler)
        self.file = f"http://files.example:{self.server_port}/secret.txt"

    def resolve(self, host, *args, **kwargs):
        if host != "127.0.0.1":
            self.seen.append(host)
        return RESOLVE("127.0.0.1" if host == "files.example" else host, *args, **kwargs)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"secret")

    def log_message(self, *args):
        pass


@pytest.fixture
def listener(monkeypatch):
    with Listener() as listener:
        Thread(target=listener.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setattr(socket, "getaddrinfo", listener.resolve)
        monkeypatch.setattr(safehttpx, "is_public_ip", lambda ip: True)
        yield listener
        listener.shutdown()


def upload(http, name="notes.md", content=b"# Notes"):
    (path,) = http.post("gradio_api/upload", files={"files": (name, content)}).json()
    return path


def assert_refused(response):
    assert response.status_code == 422, response.text
    assert "Only uploaded files are accepted" in response.text


def test_without_the_guard_gradio_would_fetch_the_file(listener, tmp_path):
    ssrf_protected_download(listener.file, str(tmp_path))
    assert listener.seen == ["files.example", "/secret.txt"]


def test_no_event_accepts_a_url_as_a_file(http, listener):
    """Gradio reads files in the inputs of every event, whatever its components are."""
    file = {"path": listener.file, "url": listener.file, **META}
    events = [event for event in http.get("config").json()["dependencies"] if event["inputs"]]
    assert {"add_document", "ask", "compare", "inspect"} <= {event["api_name"] for event in events}
    for event in events:
        name = event["api_name"]
        for value in (file, [file], {"x": [{"y": file}]}):
            body = {"data": [value] * len(event["inputs"]), "fn_index": event["id"], "session_hash": "me"}
            for route in ("queue/join", f"run/{name}", f"api/{name}", f"call/{name}"):
                assert_refused(http.post(f"gradio_api/{route}", json=body))
    assert listener.seen == []


def test_no_other_route_accepts_a_url_as_a_file(http, listener):
    file = {"path": listener.file, **META}
    call = {"component_id": 1, "session_hash": "me", "fn_name": "read"}
    for route, body in (
        ("call/v2/add_document", {"file": file}),
        ("stream/0", {"data": [file]}),
        ("component_server", {"data": file, **call}),
    ):
        assert_refused(http.post(f"gradio_api/{route}", json=body))
    assert listener.seen == []


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("route", ["file=", "file/", "proxy="])
def test_no_route_fetches_a_url(http, listener, route, method):
    for target in (listener.file, listener.file.replace(":", "%3A").replace("/", "%2F")):
        assert http.request(method, f"gradio_api/{route}{target}").status_code == 422
    assert listener.seen == []


def test_a_body_under_another_type_is_read_too(http, listener):
    content = f'{{"data": [{{"path": "{listener.file}", "meta": {{"_type": "gradio.FileData"}}}}]}}'
    for kind in ("application/json", "application/x+json", "text/plain", ""):
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            sent = {"content": content.encode(encoding), "headers": {"Content-Type": kind}}
            assert_refused(http.post("gradio_api/call/add_document", **sent))
    sent = {"content": content, "headers": {"Content-Type": "multipart/form-data; boundary=x"}}
    assert http.post("gradio_api/call/add_document", **sent).status_code == 422
    assert listener.seen == []


def test_a_path_that_is_no_upload_is_refused(http, backend, listener, tmp_path, monkeypatch):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = Path(upload(http)).parents[1]
    paths = [
        str(secret),
        f"{folder}/{os.path.relpath(secret, folder)}",
        str(folder),
        f"{folder}-other/file",
        "secret.txt",
        "",
        "\\\\files.example\\share",
        "//files.example/share",
        "file:///etc/passwd",
        listener.file.upper(),
    ]
    for path in paths:
        for meta in (META, {}):
            assert_refused(http.post("gradio_api/call/add_document", json={"data": [{"path": path, **meta}]}))
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(Path.cwd()))  # with the app's folder as the one for uploads
    assert_refused(http.post("gradio_api/call/add_document", json={"data": [{"path": listener.file, **META}]}))
    assert secret.read_text() == "secret" and backend.documents() == [] and listener.seen == []


@pytest.mark.parametrize("path", ["process_recording", "process_recording/", "vibe-edit/"])
def test_functions_of_gradio_that_are_not_used_are_closed(http, path):
    answer = http.post(f"gradio_api/{path}", content=b"x")
    assert answer.status_code == 404 and "does not use" in answer.json()["detail"]


@pytest.mark.parametrize(("path", "status"), [("process_recording", 404), ("file=http://files.example/", 422)])
def test_what_its_path_refuses_is_refused_before_the_body_is_read(path, status):
    scope = {"type": "http", "method": "POST", "path": f"/gradio_api/{path}", "headers": []}
    sent = []

    async def receive():
        pytest.fail("the body was read")

    async def send(message):
        sent.append(message)

    with ThreadPoolExecutor(1) as pool:  # Playwright's event loop may run in this thread
        pool.submit(asyncio.run, UploadGuard(None)(scope, receive, send)).result()
    assert sent[0]["status"] == status


def test_broken_bodies_are_left_to_gradio(http):
    for body in (b"", b"{", b"\xff", b"[" * 100_000):
        sent = {"content": body, "headers": {"Content-Type": "application/json"}}
        refused = http.post("gradio_api/call/add_document", **sent)
        assert 400 <= refused.status_code < 500 and "uploaded" not in refused.text


def test_gradios_client_uploads_files_and_shows_why_a_url_is_refused(url, listener, tmp_path):
    (tmp_path / "log.md").write_text("# Log")
    client = Client(url, verbose=False)
    (added,) = client.predict(file=handle_file(tmp_path / "log.md"), api_name="/add_document")
    assert (added["name"], added["stage"]) == ("log.md", "done")
    with pytest.raises(Exception, match="Only uploaded files are accepted"):
        client.predict(file=handle_file(listener.file), api_name="/add_document")
    assert "files.example" not in listener.seen  # the client itself resolves other names


def test_uploads_are_accepted_and_their_url_is_not_fetched(http, backend, listener):
    for address in (listener.file, None):
        path = upload(http)
        assert http.get(f"gradio_api/file={path}").content == b"# Notes"
        file = {"path": path, "url": address, "orig_name": "notes.md", **META}
        sent = http.post("gradio_api/call/add_document", json={"data": [file]}).json()
        assert "event: complete" in http.get(f"gradio_api/call/add_document/{sent['event_id']}").text
    assert len(backend.documents()) == 1 and listener.seen == []
