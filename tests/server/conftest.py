"""The real app with a fake backend, as it listens on a port."""

import pytest

from server.routes import app_kwargs
from tests.support.fake_backend.backend import FakeBackend
from ui.layout import App, launch_options


@pytest.fixture(scope="module")
def server():
    backend = FakeBackend()
    page, options = App(backend).blocks, {**launch_options(), "app_kwargs": app_kwargs(backend, "127.0.0.1")}
    _, url, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, quiet=True, **options)
    yield backend, url
    page.close()


@pytest.fixture
def backend(server):
    server[0].reset(pace_s=0.002)
    return server[0]


@pytest.fixture
def url(server, backend):
    return server[1]
