"""The real app with a fake backend, as it listens on a port, for everyone and with authentication."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace

import gradio as gr
import pytest
from argon2 import PasswordHasher

from server.access import LOCAL, Access, Credentials
from server.audit import audited
from server.limits import limit_questions
from server.routes import app_kwargs
from store.audit import NO_LOG, AuditLog
from tests.support.fake_backend.backend import FakeBackend
from tests.support.ports import free_port
from ui.layout import App, launch_options

PASSWORD = "correct horse"
KEYS = ["k" * 16, "key of a second program"]
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
LIMITS = SimpleNamespace(client_requests=5000, client_questions=2, client_uploads=20, client_upload_mib=64)
GUARDED = Access(Credentials(QUICK.hash(PASSWORD), KEYS), LIMITS, "kvscope.example.org")


@dataclass
class Server:
    backend: FakeBackend
    page: gr.Blocks
    url: str


@contextmanager
def serving(access: Access, audit: AuditLog = NO_LOG) -> Iterator[Server]:
    backend = FakeBackend()
    limited = audited(limit_questions(backend, access.limits), audit)
    page = App(limited, login=access.credentials is not None).blocks
    options = launch_options(app_kwargs(limited, "127.0.0.1", access, audit=audit))
    _, url, _ = page.launch(
        server_name="127.0.0.1", server_port=free_port(), prevent_thread_lock=True, quiet=True, **options
    )
    yield Server(backend, page, url)
    page.close()


def until(reached):
    for _ in range(3000):
        if reached():
            return
        time.sleep(0.01)
    raise AssertionError("the condition never became true")


@pytest.fixture(scope="module")
def server():
    with serving(LOCAL) as server:
        yield server.backend, server.url


@pytest.fixture
def backend(server):
    server[0].reset(pace_s=0.002)
    return server[0]


@pytest.fixture
def url(server, backend):
    return server[1]


@pytest.fixture(scope="module")
def guarded_server():
    with serving(GUARDED) as server:
        yield server


@pytest.fixture
def guarded(guarded_server):
    """Return the server that requires a password or key, with its backend reset."""
    guarded_server.backend.reset(pace_s=0.002)
    return guarded_server
