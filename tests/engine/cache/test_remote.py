"""Engines that share chunk KV through a server, and servers that are slow, wrong or dead."""

from contextlib import closing
from threading import Event, Lock
from time import monotonic, sleep

import pytest
import torch

from engine.cache import remote
from engine.cache.cost_model import CostModel
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.kv.chunk_cache import ChunkCache
from store.errors import KVServerUnavailable
from store.types import PRESENT
from tests.support import tiny

CHUNKS = [(5, 6, 7), (8, 9), (10, 11, 12, 13)]
SLOW = CostModel((0, 1), (0, 1), ((0.0, 10_000.0),) * 2)  # 10 s per token: any server is faster
FAST = CostModel((0, 1), (0, 1), ((0.0, 20.0),) * 2)  # 20 ms per token


class MemoryServer:
    """A SharedBlobStore in a dict. `works` may be set to False, and `answers` cleared to make every call hang."""

    def __init__(self):
        self.address = "127.0.0.1:6379"
        self.values, self.deleted, self.leases, self.calls = {}, set(), {}, []
        self.works, self.answers, self.lock = True, Event(), Lock()
        self.answers.set()

    def _called(self, name, keys=()):
        self.calls.append((name, *keys))
        self.answers.wait()
        if not self.works:
            raise KVServerUnavailable("The server does not work.")

    def warning(self):
        return ""

    def claim(self, keys, lease_ms):
        self._called("claim", keys)
        with self.lock:
            return [PRESENT if key in self.values else self.leases.get(key, 0) for key in keys]

    def read(self, keys):
        self._called("read", keys)
        for key in keys:
            yield key, key.encode() if key in self.values else b""

    def decode(self, key, value):
        tensors = self.values[key] if value else None
        return None if tensors == "damaged" else tensors

    def put(self, key, tensors):
        self._called("put", [key])
        if key in self.values or key in self.deleted:
            return False
        self.values[key] = {name: tensor.clone() for name, tensor in tensors.items()}
        return True

    def delete(self, keys):
        self._called("delete", keys)
        self.deleted |= set(keys)
        for key in keys:
            self.values.pop(key, None)

    def discard(self, keys):
        self._called("discard", keys)
        for key in keys:
            self.values.pop(key, None)

    def close(self):
        pass


@pytest.fixture
def server():
    return MemoryServer()


@pytest.fixture
def start(server):
    """Returns an engine's chunk cache that shares KV through the server."""
    tiers = []

    def start(costs=SLOW, bits=16, seed=0):
        config = CacheHierarchyConfig(2**30, 0, remote_bits=bits)
        tiers.append(CacheHierarchy(config, None, torch.device("cpu"), server))
        return ChunkCache(tiny.decoder(seed=seed), (1, 2, 3), tiers[-1].tree, costs, tiers[-1].remote)

    yield start
    server.answers.set()
    for each in tiers:
        each.close()


def fill(cache):
    """Compute all chunks on one engine and write them to the server."""
    kv = [kv for kv, _ in cache.get_or_compute_all(CHUNKS)]
    cache.flush()
    assert cache.remote.drain(5)
    return kv


def tiers_of(cache):
    return [tier for _, tier in cache.get_or_compute_all(CHUNKS)]


def test_an_engine_reads_what_another_computed_bit_for_bit_and_once(start, server):
    computed = fill(start())
    assert len(server.values) == 3
    cache = start()
    cache.compute = pytest.fail
    read = cache.get_or_compute_all(CHUNKS)
    assert [tier for _, tier in read] == ["remote"] * 3
    for (kv, _), expected in zip(read, computed, strict=True):
        assert torch.equal(kv.keys, expected.keys) and torch.equal(kv.values, expected.values)
        assert kv.start == expected.start and not kv.quantized
    assert tiers_of(cache) == ["host"] * 3
    wait_for(lambda: (cache.remote.stats.hits, cache.remote.stats.misses) == (3, 0))
    cache.flush()
    assert cache.remote.drain(5)
    assert sum(name == "put" for name, *_ in server.calls) == 3  # what was read is not written again


def test_nothing_is_written_before_the_first_token(start, server):
    cache = start()
    cache.get_or_compute_all(CHUNKS)
    assert cache.remote.drain(5) and not server.values
    cache.flush()
    assert cache.remote.drain(5) and len(server.values) == 3


def test_gathered_chunks_and_those_without_a_prefix_are_shared_too(start, server):
    first, second = start(), start()
    first.gather(CHUNKS)
    first.without_prefix.gather(CHUNKS)
    first.flush()
    assert first.remote.drain(5)
    assert second.gather(CHUNKS).tiers == ("remote",) * 3
    assert second.without_prefix.gather(CHUNKS).tiers == ("remote",) * 3


def test_models_and_precisions_are_kept_apart(start, server):
    fill(start())
    assert tiers_of(start(seed=1)) == ["computed"] * 3
    assert tiers_of(start(bits=8)) == ["computed"] * 3


def test_with_8_bits_values_are_about_half_as_large_and_marked_as_not_exact(start, server):
    computed = fill(start(bits=8))
    (kv, tier), *_ = start(bits=8).get_or_compute_all(CHUNKS)
    assert tier == "remote" and kv.quantized
    assert torch.allclose(kv.values, computed[0].values, atol=0.05)
    assert all(value["keys"].dtype == torch.int8 for value in server.values.values())


@pytest.mark.parametrize("damage", ["damaged", "another shape", "a missing tensor", "another start"])
def test_a_wrong_value_is_computed_instead_and_one_that_is_damaged_is_replaced(start, server, damage):
    fill(start())
    name = next(iter(server.values))  # of the first chunk
    good = server.values[name]
    server.values[name] = {
        "damaged": "damaged",
        "another shape": good | {"keys": good["keys"][:, :, :-1]},
        "a missing tensor": {"keys": good["keys"]},
        "another start": good | {"start": torch.tensor([0])},
    }[damage]
    cache = start()
    read = cache.get_or_compute_all(CHUNKS)
    assert [tier for _, tier in read] == ["computed", "remote", "remote"]
    assert torch.equal(read[0][0].keys, good["keys"])
    cache.flush()
    assert cache.remote.drain(5)
    if damage in ("damaged", "a missing tensor"):
        assert torch.equal(server.values[name]["values"], good["values"])


def test_a_server_that_never_answers_delays_a_request_only_briefly(start, server):
    fill(start())
    cache = start(CostModel((0, 1), (0, 1), ((0.0, 100.0),) * 2))  # 0.9 s in all
    server.answers.clear()
    began = monotonic()
    assert tiers_of(cache) == ["computed"] * 3
    assert monotonic() - began < 5  # of its 0.9 s it waits for 0.09


def test_a_dead_server_is_not_asked_again_for_a_while(start, server):
    fill(start())
    server.works = False
    cache = start()
    assert tiers_of(cache) == ["computed"] * 3
    wait_for(lambda: (cache.remote.stats.failures, cache.remote.stats.misses) == (1, 3))
    assert cache.remote.error == "The server does not work. " + KVServerUnavailable.hint
    server.works, calls = True, len(server.calls)
    cache.tree.clear()
    assert tiers_of(cache) == ["computed"] * 3 and len(server.calls) == calls
    cache.remote._retry_at = 0.0
    cache.tree.clear()
    assert tiers_of(cache) == ["remote"] * 3
    wait_for(lambda: not cache.remote.error)


def test_what_is_faster_to_compute_than_to_read_is_computed_and_reading_is_tried_again_later(start, server):
    fill(start())
    cache = start(FAST)
    cache.remote._ms_per_byte = 1.0
    server.calls.clear()
    assert tiers_of(cache) == ["computed"] * 3 and not server.calls
    for _ in range(100):
        if not server.calls:
            cache.tree.clear()
            tiers_of(cache)
    assert server.calls


def test_a_chunk_that_another_engine_is_computing_is_waited_for_if_that_takes_less_time(start, server):
    values = fill_and_take(start, server)
    server.leases = dict.fromkeys(values, 20)  # ms
    cache = start()
    claim = server.claim

    def claim_then_write(keys, lease_ms):
        left = claim(keys, lease_ms)
        server.values |= values  # right after the first look
        return left

    server.claim = claim_then_write
    assert tiers_of(cache) == ["remote"] * 3


def test_a_chunk_that_another_engine_needs_longer_for_is_computed(start, server):
    values = fill_and_take(start, server)
    server.leases = dict.fromkeys(values, 600_000)  # ms; computing takes 60 s at most
    assert tiers_of(start()) == ["computed"] * 3


def test_a_deleted_chunk_is_deleted_for_all_engines_and_not_written_by_one_that_was_computing(start, server):
    first, second = start(), start()
    fill(first)
    second.get_or_compute_all([(1, 2), *CHUNKS])
    for ids in [(1, 2), *CHUNKS]:
        first.delete(ids)
    assert first.remote.drain(5) and not server.values
    second.flush()  # (1, 2) was computed before the deletion
    assert second.remote.drain(5) and not server.values
    assert len(server.deleted) == 4 * 2 * len(remote.BITS)  # with and without the prefix


@pytest.mark.parametrize("with_prefix", [True, False])
def test_an_engine_does_not_write_what_it_deleted_before_its_first_token(start, server, with_prefix):
    cache = start()
    (cache if with_prefix else cache.without_prefix).get_or_compute_all(CHUNKS)
    cache.delete(CHUNKS[0])
    server.deleted.clear()  # as after an hour
    cache.flush()
    assert cache.remote.drain(5) and len(server.values) == 2


def test_what_waits_to_be_written_is_limited_where_no_question_gets_to_its_first_token(start, monkeypatch):
    monkeypatch.setattr("engine.kv.chunk_cache.MAX_UNSHARED", 2)
    cache = start()
    cache.get_or_compute_all(CHUNKS)
    assert list(cache._unshared) == [cache.chunk_key(ids) for ids in CHUNKS[1:]]


def test_deletions_are_tried_until_the_server_works_again(start, server, monkeypatch):
    monkeypatch.setattr(remote, "RETRY_S", 0.01)
    cache = start()
    fill(cache)
    server.works = False
    cache.delete(CHUNKS[0])
    assert not cache.remote.drain(0.2) and len(server.values) == 3
    server.works = True
    assert cache.remote.drain(5) and len(server.values) == 2


def test_writes_that_fail_are_dropped_and_the_next_ones_work(start, server, monkeypatch):
    monkeypatch.setattr(remote, "RETRY_S", 0.01)
    cache = start()
    server.works = False
    cache.get_or_compute_all(CHUNKS)
    cache.flush()
    assert cache.remote.drain(5) and not server.values
    server.works = True
    cache.remote._retry_at = 0
    cache.get_or_compute((1, 2))
    cache.flush()
    assert cache.remote.drain(5) and len(server.values) == 1


def test_closing_does_not_wait_for_a_dead_server(start, server):
    cache = start()
    server.works = False
    cache.delete(CHUNKS[0])
    with closing(cache.remote):
        wait_for(lambda: cache.remote.error)


def wait_for(condition):
    """Wait for what another thread does after a request has its KV."""
    deadline = monotonic() + 5
    while not condition():
        assert monotonic() < deadline
        sleep(0.001)


def fill_and_take(start, server):
    """Fill the server, then empty it; return its values by name."""
    fill(start())
    values, server.values = server.values, {}
    return values
