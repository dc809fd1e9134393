"""The page that is served while the libraries are imported."""

import json
import socket
from contextlib import closing
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from server.starting_page import StartingPage


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def get(port, path, data=None):
    with pytest.raises(HTTPError) as refused:
        urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=10)
    return refused.value


def test_it_serves_a_page_and_its_state_as_not_ready(port):
    with closing(StartingPage("127.0.0.1", port)):
        page, state = get(port, "/?__theme=dark"), get(port, "/healthz")
        assert page.code == state.code == 503 and page.headers["Retry-After"] == "1"
        assert "KVScope is starting" in page.read().decode()
        assert page.headers["Content-Security-Policy"].count("'sha256-") == 1
        assert json.loads(state.read())["status"] == "starting"
        assert get(port, "/v1/chat/completions", b"{}").code == 503
        with urlopen(f"http://127.0.0.1:{port}/starting", timeout=10) as running:
            assert running.status == 200


def test_a_port_in_use_raises_and_a_closed_page_frees_its_port(port):
    starting = StartingPage("127.0.0.1", port)
    with pytest.raises(OSError):
        StartingPage("127.0.0.1", port)
    with socket.create_connection(("127.0.0.1", port)):  # a browser that keeps its connection
        starting.close()
    starting.close()
    with closing(StartingPage("127.0.0.1", port)):
        assert get(port, "/").code == 503
