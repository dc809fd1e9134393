"""One Gradio app for all UI tests of a process: building it takes a second, resetting its fake backend nothing."""

from types import SimpleNamespace

import pytest

from tests.support.fake_backend.backend import FakeBackend
from ui.layout import App

ME = SimpleNamespace(session_hash="me")


@pytest.fixture(scope="session")
def _built():
    backend = FakeBackend(pace_s=0)
    return App(backend, {"one?": "one.txt"}), backend


@pytest.fixture
def backend(_built):
    """The backend of `app` in its initial state, without pauses."""
    _built[1].reset(pace_s=0)
    return _built[1]


@pytest.fixture
def app(_built, backend):
    """The app with all its pages; nothing of the session ME is running."""
    yield _built[0]
    _built[0].close_session(ME)
