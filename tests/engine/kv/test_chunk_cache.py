"""Chunk KV: computed once, found again, by content and by path."""

from threading import Event, Thread

import pytest

from engine.errors import Cancelled
from engine.kv.chunk_cache import ChunkCache
from engine.kv.fingerprint import model_fingerprint
from engine.model.decoder import Decoder
from tests.support import tiny
from tests.support.doubles import tiers

HOST = 0


@pytest.fixture
def cache():
    made = tiers()
    found = ChunkCache(tiny.decoder(), (1, 2, 3), made.tree)
    found.tiers = made
    return found


def test_tiers_are_named_as_they_were_used(cache):
    assert cache.get((5, 6, 7))[1] == "computed"
    assert cache.get((5, 6, 7))[1] == "host"
    cache.flush()
    cache.tree.clear(HOST)
    assert cache.get((5, 6, 7))[1] == "disk"
    assert cache.get((5, 6, 7))[1] == "host"


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
    assert len(cache.tree) == 0
    assert cache.get((5, 6, 7))[1] == "computed"


def test_fingerprints_differ_by_model_weights_prefix_and_chunk():
    caches = [
        ChunkCache(tiny.decoder(seed=seed), prefix, tiers().tree)
        for seed, prefix in ((0, (1, 2)), (1, (1, 2)), (0, (1, 2, 3)))
    ]
    keys = {cache.key(ids) for cache in caches for ids in ((3, 4), (4, 3), (3,), (4,))}
    assert len(keys) == 12


def test_what_is_done_with_the_same_weights_is_in_the_fingerprint():
    decoders = [tiny.decoder() for _ in range(3)]
    decoders[1].model.config.rms_norm_eps = 1e-3
    decoders[2].model.model.rotary_emb.attention_scaling = 1.5
    names = {model_fingerprint(Decoder(decoder.model, decoder.tokenizer, "tiny")) for decoder in decoders}
    assert len(names) == 3


def test_equal_weights_have_the_same_fingerprint():
    one, two = (ChunkCache(tiny.decoder(), (1, 2), tiers().tree) for _ in range(2))
    assert one.fingerprint == two.fingerprint
