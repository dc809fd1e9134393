"""Chunk KV on a Valkey server: what is written is read bit for bit, or not at all."""

import time

import pytest
import torch
from redis import Redis

from store.errors import KVScopeError, KVServerUnavailable
from store.kv import kv_server
from store.kv.kv_server import HEADER, KVServer
from store.types import PRESENT
from tests.support.ports import free_port
from tests.support.valkey import valkey

TENSORS = {"keys": torch.randn(2, 3, 5, 4).bfloat16(), "start": torch.tensor([7])}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with valkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def raw(server):
    """A client of our own, for an empty server."""
    client = Redis(port=server.port)
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def engines(server, raw):
    """The clients of two engines."""
    clients = [KVServer(f"redis://127.0.0.1:{server.port}/0") for _ in range(2)]
    yield clients
    for client in clients:
        client.close()


def read(client, *keys):
    return {key: client.decode(key, value) for key, value in client.read(keys)}


def test_another_engine_reads_what_was_written_bit_for_bit_in_the_order_it_asks_for(engines):
    writer, reader = engines
    assert writer.put("a", TENSORS) and writer.put("b", {"x": torch.arange(3)})
    found = list(reader.read(["b", "missing", "a"]))
    assert [(key, len(value) > HEADER.size) for key, value in found] == [("b", True), ("missing", False), ("a", True)]
    tensors = reader.decode(*found[2])
    for name, tensor in TENSORS.items():
        assert torch.equal(tensors[name], tensor) and tensors[name].dtype == tensor.dtype
    assert list(reader.read([])) == [] and reader.claim([], 100) == []


def test_every_value_expires_and_an_existing_one_is_not_written_again(engines, raw):
    assert engines[0].put("a", TENSORS)
    assert not engines[1].put("a", {"x": torch.zeros(1)})
    assert set(read(engines[1], "a")["a"]) == set(TENSORS)
    assert 0 < raw.ttl("a") <= kv_server.TTL_S


@pytest.mark.parametrize("damage", ["a bit", "the end", "more", "another key's", "foreign", "empty"])
def test_a_value_that_is_torn_altered_or_foreign_is_a_miss(engines, raw, damage):
    engines[0].put("a", TENSORS)
    engines[0].put("b", TENSORS)
    value = raw.get("a")
    raw.set(
        "a",
        {
            "a bit": value[:-1] + bytes([value[-1] ^ 1]),
            "the end": value[:-8],
            "more": value + b"\0",
            "another key's": raw.get("b"),
            "foreign": b"x" * 100,
            "empty": b"",
        }[damage],
    )
    found = read(engines[1], "a", "b")
    assert found["a"] is None and found["b"] is not None
    engines[1].discard(["a"])
    assert engines[0].put("a", TENSORS) and read(engines[1], "a")["a"] is not None


def test_closing_early_leaves_no_answer_of_an_old_request_on_the_connection(engines):
    for key in "abc":
        engines[0].put(key, {key: torch.ones(1)})
    for _ in range(3):
        values = engines[1].read(["a", "b", "c"])
        assert next(values)[0] == "a"
        values.close()
    assert {key: set(tensors) for key, tensors in read(engines[1], "c", "b").items()} == {"c": {"c"}, "b": {"b"}}


def test_one_engine_has_the_lease_of_a_missing_chunk_until_it_ends_or_the_chunk_is_there(engines):
    engines[0].put("there", TENSORS)
    assert engines[0].claim(["there", "new"], 60_000) == [PRESENT, 0]
    present, left = engines[1].claim(["there", "new"], 60_000)
    assert present == PRESENT and 0 < left <= 60_000
    engines[0].put("new", TENSORS)
    assert engines[1].claim(["new"], 60_000) == [PRESENT]
    assert engines[0].claim(["short"], 1) == [0]
    time.sleep(0.05)
    assert engines[1].claim(["short"], 60_000) == [0]


def test_an_engine_that_is_still_computing_cannot_bring_a_deleted_chunk_back(engines, raw, monkeypatch):
    engines[0].put("a", TENSORS)
    engines[1].delete(["a", "b"])
    assert not engines[0].put("a", TENSORS) and not engines[0].put("b", TENSORS)
    assert not raw.exists("a", "b")
    assert raw.ttl(kv_server.DELETED) == -1  # a server with `volatile-lru` does not evict it
    assert kv_server.DELETED_S * 1000 > kv_server.MAX_LEASE_MS
    monkeypatch.setattr(kv_server, "DELETED_S", -1)
    engines[1].delete(["c"])  # forgets what is over by now
    assert raw.zrange(kv_server.DELETED, 0, -1) == [b"a", b"b"]
    engines[1].delete(["a"])
    assert engines[0].put("a", TENSORS)


def test_a_full_server_evicts_chunks_but_no_deletion(engines, raw):
    engines[1].delete(["deleted"])
    for number in range(40):
        engines[0].put(f"chunk {number}", {"x": torch.zeros(2**20)})  # 4 MiB each, for 64
    found = read(engines[1], *(f"chunk {number}" for number in range(40)))
    assert 0 < sum(tensors is not None for tensors in found.values()) < 40
    assert not engines[0].put("deleted", TENSORS)


def test_an_unsuitable_configuration_is_named(engines, raw):
    assert engines[0].warning() == ""
    raw.config_set("maxmemory-policy", "allkeys-lru")
    assert "allkeys-lru" in engines[0].warning()
    raw.config_set("maxmemory", 0)
    assert "no memory limit" in engines[0].warning()
    raw.config_set("maxmemory", 64 * 2**20)
    raw.config_set("maxmemory-policy", "volatile-lru")


def test_a_dead_server_and_a_wrong_password_are_named_without_the_password(server, raw):
    client = KVServer(f"redis://127.0.0.1:{free_port()}/0", "s3cret")
    for call in (
        lambda: client.claim(["a"], 100),
        lambda: read(client, "a"),
        lambda: client.put("a", TENSORS),
        lambda: client.delete(["a"]),
        lambda: client.discard(["a"]),
        client.warning,
    ):
        with pytest.raises(KVServerUnavailable, match=r"127\.0\.0\.1") as caught:
            call()
        assert "s3cret" not in str(caught.value)
    raw.config_set("requirepass", "right")
    try:
        address = f"redis://127.0.0.1:{server.port}/0"
        with pytest.raises(KVServerUnavailable):
            KVServer(address, "s3cret").claim(["a"], 100)
        assert KVServer(address, "right").claim(["a"], 100) == [0]
    finally:
        Redis(port=server.port, password="right").config_set("requirepass", "")
    with pytest.raises(KVScopeError, match="address"):
        KVServer("http://127.0.0.1")
