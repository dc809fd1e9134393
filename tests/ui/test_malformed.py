"""Whatever a program sends to an event or endpoint, an error is a sentence: without tracebacks, objects and paths."""

import json
import re
import tempfile
from pathlib import Path

import httpx
import pytest

from server.routes import app_kwargs
from tests.support.fake_backend.backend import FakeBackend
from tests.support.ports import free_port
from ui.layout import App, launch_options

SECRETS = re.compile(
    "|".join(
        [
            r"Traceback|\b0x[0-9a-f]{5,}|<class |<[\w.]+ object|\w\.py\b|site-packages|Internal Server Error",
            *map(re.escape, [str(Path(__file__).parents[2]), tempfile.gettempdir(), str(Path.home())]),
        ]
    )
)
VALUES = [None, "x" * 5000, -1, {"a": {"b": [None]}}, [{"meta": {"_type": "gradio.FileData"}}]]
JSON = {"content-type": "application/json"}
REQUESTS = [
    ("queue/join", {"json": {"data": [], "session_hash": "a", "fn_index": 99_999}}, 400, "Reload the page"),
    ("queue/join", {"json": {"data": [], "session_hash": "a"}}, 400, "No function index"),
    ("queue/join", {"json": {"data": [], "fn_index": 0}}, 400, "Session hash not found"),
    (
        "queue/join",
        {"json": {"data": "x", "session_hash": "a", "fn_index": 0}},
        422,
        "data: Input should be a valid list",
    ),
    (
        "queue/join",
        {"json": {"data": [], "session_hash": {"a": 1}}},
        422,
        "session_hash: Input should be a valid string",
    ),
    ("queue/join", {"json": [1]}, 422, "The body: "),
    ("queue/join", {"content": b"{", "headers": JSON}, 422, "not valid JSON"),
    ("queue/join", {"content": b"\xff", "headers": JSON}, 400, "error parsing the body"),
    ("call/none", {"json": {"data": []}}, 400, "no such endpoint"),
    ("call/ask", {"json": {}}, 422, "data: Field required"),
    ("call/v2/none", {"json": {}}, 400, "no such endpoint"),
    ("call/v2/ask", {"json": {"colour": "red"}}, 400, "takes other arguments"),
    ("run/none", {"json": {"data": []}}, 400, "no such endpoint"),
    ("run/ask", {"json": {"data": [], "fn_index": 99_999}}, 400, "no such endpoint"),
    ("cancel", {"json": {"session_hash": "a", "fn_index": "x", "event_id": {}}}, 422, "fn_index: Input should be"),
    ("component_server", {"json": {"session_hash": "a", "component_id": 99_999, "fn_name": "x", "data": []}}, 400, ""),
]


@pytest.fixture(scope="module")
def page():
    backend = FakeBackend(pace_s=0)
    blocks = App(backend).blocks
    options = {**launch_options(app_kwargs(backend, "127.0.0.1")), "show_error": True}
    blocks.launch(server_name="127.0.0.1", server_port=free_port(), prevent_thread_lock=True, quiet=True, **options)
    yield blocks
    blocks.close()


@pytest.fixture(scope="module")
def client(page):
    with httpx.Client(base_url=f"{page.local_url}gradio_api/", timeout=60) as client:
        yield client


def check_error(text):
    assert text.endswith("."), text
    assert not SECRETS.search(text), text
    assert len(text) < 1100


def test_every_event_answers_malformed_values_with_a_sentence(page, client):
    for event in page.config["dependencies"]:
        num_inputs = len(event["inputs"])
        bodies = [{"data": [value] * num_inputs} for value in VALUES if num_inputs]
        bodies += [{"data": []}, {"data": [None] * num_inputs, "event_data": "x", "trigger_id": 99_999}]
        for body in bodies:
            answer = client.post("run/x", json={"fn_index": event["id"], "session_hash": "a", **body})
            if answer.status_code != 200:
                assert answer.status_code == 500
                check_error(answer.json()["error"])


def ended(client, name, arguments):
    """Return the last event of a call of an endpoint, and its data."""
    called = client.post(f"call/{name}", json={"data": arguments})
    with client.stream("GET", f"call/{name}/{called.json()['event_id']}") as answer:
        lines = [line for line in answer.iter_lines() if line]
    return lines[-2], json.loads(lines[-1].removeprefix("data: "))


def test_public_endpoints_say_what_is_wrong(page, client):
    events = [event for event in page.config["dependencies"] if event["api_visibility"] == "public"]
    assert len(events) == 9
    for event in events:
        for value in VALUES:
            kind, data = ended(client, event["api_name"], [value] * len(event["inputs"]))
            if kind == "event: error":
                check_error(data["error"])
                assert "went wrong" not in data["error"], (event["api_name"], value)


@pytest.mark.parametrize(("path", "request_", "status", "message"), REQUESTS)
def test_a_malformed_request_is_answered_with_a_sentence(client, path, request_, status, message):
    answer = client.post(path, **request_)
    assert (answer.status_code, message in answer.json()["detail"]) == (status, True), answer.text
    assert not SECRETS.search(answer.text)


def test_an_unexpected_error_of_a_route_is_named_by_its_type(page, client, monkeypatch):
    monkeypatch.setattr(page.app, "uploaded_file_dir", f"{__file__}/uploads")  # in a file
    answer = client.post("upload", files={"files": ("a.txt", b"x")})
    message = "Something went wrong (NotADirectoryError). See the log for details."
    assert (answer.status_code, answer.json()) == (500, {"detail": message})


@pytest.mark.parametrize("path", ["queue/data?session_hash=unknown", "call/ask/unknown"])
def test_an_unknown_session_tells_nothing(client, path):
    with pytest.raises(httpx.RemoteProtocolError), client.stream("GET", path) as answer:
        for line in answer.iter_lines():
            assert not SECRETS.search(line)
