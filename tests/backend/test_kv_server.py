"""Backends that share chunk KV through a Valkey server."""

from threading import Event

import pytest
from redis import Redis

from backend.interface.errors import BadSettings
from backend.runtime.secrets import KV_SERVER_PASSWORD
from backend.runtime.settings import Settings
from engine.request import Request
from store.kv.kv_server import DELETED
from tests.backend.conftest import filled
from tests.support.doubles import last
from tests.support.valkey import valkey

QUESTION = Request("What is the maintenance code?", "cacheclip", max_new_tokens=8)


@pytest.fixture
def server(tmp_path):
    with valkey(tmp_path) as server:
        yield server


def ask(backend):
    answer = last(backend.ask(QUESTION, Event()))
    return answer.text, {source.tier for source in answer.sources}


def test_a_backend_reads_what_another_computed_shows_it_and_deletes_it_for_all(start, server, tmp_path):
    settings = {"kv_server": f"redis://127.0.0.1:{server.port}", "disk_cache_gib": 0}
    first = filled(start(**settings), tmp_path)
    computed, _ = ask(first)
    backend = start(**settings)  # closes the first: its memory is gone
    assert ask(backend) == (computed, {"remote"})
    usage = backend.cache.snapshot().kv_server
    assert usage.hits and usage.read_bytes and not usage.error and usage.address == f"127.0.0.1:{server.port}"
    assert "kvscope:kv_server_up 1.0" in backend.metrics_text()
    assert f"kvscope:kv_server_hits_total {usage.hits}.0" in backend.metrics_text()
    raw = Redis(port=server.port)
    values = b"".join(raw.get(key) or b"" for key in raw.keys("kv3:*"))
    assert values and b"maintenance" not in values
    backend.delete(backend.documents()[0].id)
    assert backend.loader.runtime.tiers.remote.drain(10)
    assert raw.keys("*") == [DELETED.encode()]


def test_a_backend_answers_without_its_server_and_says_so(start, server, tmp_path):
    settings = {"kv_server": f"redis://127.0.0.1:{server.port}", "disk_cache_gib": 0}
    computed, _ = ask(filled(start(**settings), tmp_path))
    server.stop()
    backend = start(**settings)
    assert "sent to the KV server" in backend.outgoing_note
    assert ask(backend) == (computed, {"computed"})
    assert "does not work" in backend.cache.snapshot().kv_server.error
    assert "kvscope:kv_server_up 0.0" in backend.metrics_text()


@pytest.mark.parametrize(
    "url, message",
    [
        ("http://box", "is not an address"),
        ("redis://", "is not an address"),
        ("unix:///tmp/x", "is not an address"),
        ("redis://:s3cret@box", KV_SERVER_PASSWORD),
        ("redis://box:99999", "is not an address"),
        ("redis://me:s3c/ret@box", "is not an address"),
        ("redis://box?password=s3cret", "TLS only"),
    ],
)
def test_the_address_is_checked_and_its_password_is_not_repeated(url, message):
    with pytest.raises(BadSettings, match=f"(?i){message}") as error:
        Settings(kv_server=url)
    assert "s3cret" not in str(error.value)


def test_redis_py_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setattr("backend.runtime.settings.find_spec", lambda name: None)
    with pytest.raises(BadSettings, match=r"requirements-cluster\.txt"):
        Settings(kv_server="rediss://box:6379/1")
