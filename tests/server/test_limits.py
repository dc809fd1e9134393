"""Limits on the size of events."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from server.upload_guard import MAX_EVENT_BYTES, UploadGuard


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x", "text/plain"])
def test_an_event_of_any_kind_is_limited_in_size(kind):
    app = Starlette(
        routes=[Route("/gradio_api/queue/join", lambda request: PlainTextResponse("in"), methods=["POST"])],
        middleware=[Middleware(UploadGuard)],
    )
    parts = (b" " * 2**20 for _ in range(MAX_EVENT_BYTES // 2**20 + 1))
    send = TestClient(app).post
    refused = send("/gradio_api/queue/join", content=parts, headers={"Content-Type": kind})
    assert refused.status_code == 413 and "16384 KiB" in refused.json()["detail"]
    assert send("/gradio_api/queue/join", content=b"{}", headers={"Content-Type": kind}).text == "in"
