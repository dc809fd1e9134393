"""Chunk KV: computed once, found again, within its budget."""

from threading import Event, Thread

import pytest
import torch

from engine.errors import Cancelled
from engine.reuse.chunks import ChunkCache, HostTier
from engine.types import ChunkKV
from tests import tiny
from tests.engine.doubles import MemoryBlobs


def kv(tokens):
    return ChunkKV(torch.zeros(1, 1, tokens, 4), torch.zeros(1, 1, tokens, 4))  # 32 bytes a token


def test_the_host_tier_holds_the_sum_of_its_chunks_and_never_more_than_its_budget():
    host = HostTier(budget_bytes=100 * 32)
    for number, tokens in enumerate([40, 30, 50, 20]):
        host.put(str(number), kv(tokens))
        held = [chunk for n in "0123" if (chunk := host.get(n))]
        assert host.size_bytes == sum(chunk.size_bytes for chunk in held) <= 100 * 32
    assert host.get("0") is None and host.get("3") is not None


def test_the_least_recently_used_chunk_goes_first():
    host = HostTier(budget_bytes=100 * 32)
    host.put("old", kv(40))
    host.put("new", kv(40))
    host.get("old")
    host.put("newest", kv(40))
    assert host.get("new") is None and host.get("old") is not None


def test_putting_a_chunk_again_does_not_count_it_twice():
    host = HostTier(budget_bytes=1000 * 32)
    host.put("a", kv(10))
    host.put("a", kv(20))
    assert host.size_bytes == 20 * 32


def test_a_negative_budget_is_refused():
    with pytest.raises(ValueError, match="got -1"):
        HostTier(-1)


@pytest.fixture
def cache():
    return ChunkCache(tiny.decoder(), (1, 2, 3), HostTier(2**30), MemoryBlobs())


def test_tiers_are_named_as_they_were_used(cache):
    assert cache.get((5, 6, 7))[1] == "computed"
    assert cache.get((5, 6, 7))[1] == "host"
    cache.host.clear()
    assert cache.get((5, 6, 7))[1] == "disk"


def test_two_threads_compute_a_chunk_once(cache):
    calls, compute = [], cache.compute
    cache.compute = lambda ids, cancel: calls.append(ids) or compute(ids, cancel)
    threads = [Thread(target=cache.get, args=(tuple(range(200)),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_a_cancelled_prefill_stores_nothing_and_can_be_repeated(cache):
    stop = Event()
    stop.set()
    with pytest.raises(Cancelled):
        cache.get((5, 6, 7), stop)
    assert not cache.blobs.held
    assert cache.get((5, 6, 7))[1] == "computed"


def test_fingerprints_differ_by_model_weights_prefix_and_chunk():
    caches = [
        ChunkCache(tiny.decoder(seed=seed), prefix, HostTier(0), MemoryBlobs())
        for seed, prefix in ((0, (1, 2)), (1, (1, 2)), (0, (1, 2, 3)))
    ]
    keys = {cache.key(ids) for cache in caches for ids in ((3, 4), (4, 3), (3,), (4,))}
    assert len(keys) == 12


def test_equal_weights_have_the_same_fingerprint():
    one, two = (ChunkCache(tiny.decoder(), (1, 2), HostTier(0), MemoryBlobs()) for _ in range(2))
    assert one.fingerprint == two.fingerprint
