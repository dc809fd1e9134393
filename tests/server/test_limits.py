"""Limits on requests and uploads of each client, and on the size of events."""

from types import SimpleNamespace

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from server.bodies import MAX_EVENT_BYTES
from server.limits import LimitGuard
from server.routes import app_kwargs
from server.upload_guard import UploadGuard
from tests.support.fake_backend.backend import FakeBackend
from ui.events import MODEL_QUEUE
from ui.layout import App, launch_options

FORM = {"Content-Type": "multipart/form-data; boundary=x"}


@pytest.fixture
def visit():
    """Return a function that makes a client with an address; time does not pass."""
    limits = SimpleNamespace(client_requests=9, client_uploads=2, client_upload_mib=1)
    guards = [Middleware(LimitGuard, limits=limits, clock=lambda: 0.0), Middleware(UploadGuard)]
    paths = ("/", "/gradio_api/upload", "/gradio_api/queue/join")
    routes = [Route(path, lambda request: PlainTextResponse("in"), methods=["GET", "POST"]) for path in paths]
    app = Starlette(routes=routes, middleware=guards)
    app.middleware_stack = app.build_middleware_stack()
    return lambda address: TestClient(app, client=(address, 1))


def test_requests_are_limited_for_each_client(visit):
    busy, other = visit("203.0.113.1"), visit("203.0.113.2")
    assert [busy.get("/").status_code for _ in range(10)] == [200] * 9 + [429]
    refused = busy.post("/gradio_api/queue/join", json={})
    assert int(refused.headers["Retry-After"]) == 7 and refused.json()["detail"] == (
        "Too many requests per minute; the limit is 9 (--client-requests). Try again in 7 seconds."
    )
    assert other.get("/").status_code == 200


def test_uploads_are_limited_by_number_and_size(visit):
    def upload(client, size, **headers):
        response = client.post("/gradio_api/upload", content=b"x" * size, headers=FORM | headers)
        if response.status_code == 429:
            messages.append(response.json()["detail"])
        return response.status_code

    messages = []
    assert [upload(visit("203.0.113.1"), 10) for _ in range(3)] == [200, 200, 429]
    assert [upload(visit("203.0.113.2"), size) for size in (2**20 + 1, 2**20, 1)] == [413, 200, 429]
    assert "uploads per hour; the limit is 2 (--client-uploads). Try" in messages[0]
    assert "MiB of uploads per hour; the limit is 1 (--client-upload-mib). Try" in messages[1]
    unsaid = visit("203.0.113.3").post("/gradio_api/upload", content=iter([b"x"]), headers=FORM)
    assert unsaid.status_code == 411
    assert upload(visit("203.0.113.4"), 2**20 + 1, **{"Content-Type": "MultiPart/Form-Data"}) == 413


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x", "text/plain"])
def test_an_event_of_any_kind_is_limited_in_size(kind):
    app = Starlette(
        routes=[Route("/gradio_api/queue/join", lambda request: PlainTextResponse("in"), methods=["POST"])],
        middleware=[Middleware(UploadGuard)],
    )
    parts = (b" " * 2**20 for _ in range(MAX_EVENT_BYTES // 2**20 + 1))
    send = TestClient(app).post
    refused = send("/gradio_api/queue/join", content=parts, headers={"Content-Type": kind})
    assert refused.status_code == 413 and "larger than 16 MiB" in refused.json()["detail"]
    assert send("/gradio_api/queue/join", content=b"{}", headers={"Content-Type": kind}).text == "in"


def test_the_number_of_questions_at_a_time_is_that_of_the_settings():
    app = Starlette(**app_kwargs(FakeBackend(), "127.0.0.1", max_questions=0))
    body = {"model": "kvscope", "messages": [{"role": "user", "content": "why?"}]}
    refused = TestClient(app, base_url="http://127.0.0.1").post("/v1/chat/completions", json=body)
    assert refused.status_code == 429 and "the limit (--max-questions)" in refused.json()["error"]["message"]
    events = App(FakeBackend(), max_questions=3).blocks.fns.values()
    questions = [event for event in events if event.concurrency_id == MODEL_QUEUE["concurrency_id"]]
    assert len(questions) > 5 and {event.concurrency_limit for event in questions} == {3}


def test_the_size_of_an_upload_is_that_of_the_settings():
    assert launch_options(max_file_bytes=7)["max_file_size"] == 7
