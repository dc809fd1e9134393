"""Chunk KV is computed once and then read, by content and by path."""

from threading import Event, Thread

import pytest

from engine.errors import Cancelled
from engine.kv.chunk_cache import ChunkCache, model_fingerprint
from engine.model.decoder import Decoder
from tests.support import tiny
from tests.support.doubles import make_hierarchy

HOST = 0


@pytest.fixture
def cache():
    hierarchy = make_hierarchy()
    cache = ChunkCache(tiny.decoder(), (1, 2, 3), hierarchy.tree)
    cache.tiers = hierarchy  # keeps the write-behind thread's owner alive
    return cache


def test_the_tier_that_kv_was_read_from_is_returned(cache):
    assert cache.get_or_compute((5, 6, 7))[1] == "computed"
    assert cache.get_or_compute((5, 6, 7))[1] == "host"
    cache.flush()
    cache.tree.clear(HOST)
    assert cache.get_or_compute((5, 6, 7))[1] == "disk"
    assert cache.get_or_compute((5, 6, 7))[1] == "host"


def test_two_threads_compute_a_chunk_once(cache):
    calls, compute = [], cache.compute
    cache.compute = lambda ids, cancel: calls.append(ids) or compute(ids, cancel)
    threads = [Thread(target=cache.get_or_compute, args=(tuple(range(200)),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_a_cancelled_prefill_stores_nothing_and_can_be_repeated(cache):
    cancel = Event()
    cancel.set()
    with pytest.raises(Cancelled):
        cache.get_or_compute((5, 6, 7), cancel)
    assert not cache.tree.nodes
    assert cache.get_or_compute((5, 6, 7))[1] == "computed"


def test_fingerprints_differ_by_model_weights_prefix_and_chunk():
    caches = [
        ChunkCache(tiny.decoder(seed=seed), prefix, make_hierarchy().tree)
        for seed, prefix in ((0, (1, 2)), (1, (1, 2)), (0, (1, 2, 3)))
    ]
    keys = {cache.chunk_key(ids) for cache in caches for ids in ((3, 4), (4, 3), (3,), (4,))}
    assert len(keys) == 12


def test_the_fingerprint_includes_the_configuration():
    decoders = [tiny.decoder() for _ in range(3)]
    decoders[1].model.config.rms_norm_eps = 1e-3
    decoders[2].model.model.rotary_emb.attention_scaling = 1.5
    fingerprints = {model_fingerprint(Decoder(decoder.model, decoder.tokenizer, "tiny")) for decoder in decoders}
    assert len(fingerprints) == 3


def test_equal_weights_have_the_same_fingerprint():
    one, two = (ChunkCache(tiny.decoder(), (1, 2), make_hierarchy().tree) for _ in range(2))
    assert one.fingerprint == two.fingerprint
