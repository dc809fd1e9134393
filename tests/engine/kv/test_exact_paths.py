"""Exact paths: KV computed after the same passages is reused unchanged, and approximate KV is never stored as exact."""

from dataclasses import replace
from threading import Thread
from threading import enumerate as enumerate_threads

import pytest
import torch
from torch.testing import assert_close

from engine.cache.admin import CacheAdmin
from engine.kv.chunk_cache import ChunkCache
from engine.request import Request
from engine.strategies import APE, EPIC, CacheBlend, CacheClip, CacheClipJoint, Direct, Full, Naive, Prefix
from engine.trace import Trace
from engine.types import Placement
from tests.support import tiny
from tests.support.doubles import TEXTS, FixedFinder, MemoryBlobs, last, make_engine, make_hierarchy
from tests.support.tolerance import EXACT, REORDERED

ASK = Request("When does the Old Kestrel sail?", passages=3, max_new_tokens=4)


def ask(engine, *names, method="full", **settings):
    engine.finder = FixedFinder(*names)
    return last(engine.ask(replace(ASK, method=method, **settings)))


def cache_results(answer):
    return [source.cache_result for source in answer.sources]


def prefill(engine, strategy, *names):
    engine.finder = FixedFinder(*names)
    prompt = engine.prepare(ASK, Trace())
    return engine.prefill(prompt, strategy, Trace()), engine.prompt_context(prompt, Trace()).reference


def depths(engine):
    with engine.cache.tree.locked() as replicas:
        return sorted(len(node.path()) for node in replicas.nodes.values())


def test_a_full_prefill_becomes_an_exact_path_and_nothing_is_recomputed(family):
    engine = make_engine(build=family)
    ask(engine, "ferry", "tern", "fares")
    result, reference = prefill(engine, Prefix(), "ferry", "tern", "fares")
    assert (result.num_path_chunks, result.num_exact_chunks, len(result.rows), result.actual_ratio) == (3, 3, 0, 0.0)
    assert_close(result.logits, reference.logits, **REORDERED)
    context = result.buffer.length - len(engine.prepare(ASK, Trace()).suffix_ids)
    assert_close(result.buffer.keys[:, :, :context], reference.buffer.keys[:, :, :context], **REORDERED)


def test_the_longest_path_is_reused_and_the_rest_computed_and_inserted():
    engine = make_engine()
    ask(engine, "ferry", "tern")
    answer = ask(engine, "ferry", "tern", "fares", method="prefix")
    assert cache_results(answer) == ["exact prefix hit", "exact prefix hit", "miss"]
    assert answer.recomputed_tokens == answer.sources[2].tokens
    result, reference = prefill(engine, Prefix(), "ferry", "tern", "fares")
    assert result.num_path_chunks == 3
    assert_close(result.logits, reference.logits, **REORDERED)


def test_another_order_is_another_path():
    engine = make_engine()
    ask(engine, "ferry", "tern")
    assert cache_results(ask(engine, "tern", "ferry", method="prefix")) == ["miss", "miss"]
    engine = make_engine()
    ask(engine, "ferry", "tern")
    assert cache_results(ask(engine, "tern", "ferry", method="cacheclip")) == ["miss", "chunk hit"]


@pytest.mark.parametrize("strategy", [CacheClip(0.3), CacheClipJoint(0.3), EPIC(4), CacheBlend(0.3), Direct()])
def test_an_exact_path_uses_none_of_the_budget(strategy):
    engine = make_engine()
    ask(engine, "ferry", "tern")
    uncached, _ = prefill(make_engine(), strategy, "ferry", "tern", "fares")
    result, _ = prefill(engine, strategy, "ferry", "tern", "fares")
    last_passage, suffix = engine.template.passage(TEXTS["fares"]).ids, engine.prepare(ASK, Trace()).suffix_ids
    start = result.buffer.length - len(last_passage) - len(suffix)
    assert result.num_path_chunks == 2
    assert not len(result.rows) or int(result.rows.min()) >= start
    assert len(result.rows) <= max(len(uncached.rows), int(0.3 * result.buffer.length))


def test_if_every_passage_is_exact_the_logits_are_full_prefills():
    engine = make_engine()
    ask(engine, "ferry", "tern", "fares")
    result, reference = prefill(engine, CacheClip(0.2), "ferry", "tern", "fares")
    assert len(result.rows) == 0
    assert_close(result.logits, reference.logits, **REORDERED)


@pytest.mark.parametrize("method", ["cacheclip", "cacheclip-v1", "direct", "epic", "ape", "naive", "cacheblend"])
def test_partially_recomputed_kv_is_never_inserted_as_a_path(method):
    engine = make_engine()
    answer = ask(engine, "ferry", "tern", "fares", method=method)
    assert set(depths(engine)) == {1}
    assert "exact prefix hit" not in cache_results(answer)
    assert cache_results(ask(engine, "ferry", "tern", "fares", method="prefix"))[1:] != ["exact prefix hit"] * 2


@pytest.mark.parametrize(
    ("strategy", "exact"),
    [(Full(), 3), (Prefix(), 3), (CacheClip(1.0), 3), (CacheClip(0.2), 1), (APE(), 0), (Naive(), 0)],
)
def test_the_number_of_exact_chunks_is_known(strategy, exact):
    result, reference = prefill(make_engine(), strategy, "ferry", "tern", "fares")
    assert result.num_exact_chunks == exact
    if exact == 3:
        assert_close(result.logits, reference.logits, **REORDERED)


def test_exact_prefix_reuse_computes_no_chunk_kv():
    engine, computed = make_engine(), []
    compute = engine.cache.compute
    engine.cache.compute = lambda ids, cancel: computed.append(ids) or compute(ids, cancel)
    ask(engine, "ferry", "tern", method="prefix")
    ask(engine, "ferry", "fares", method="prefix")
    assert computed == []


def test_parallel_placement_uses_no_path():
    engine = make_engine()
    alone, _ = prefill(engine, APE(), "ferry", "tern")
    ask(engine, "ferry", "tern")
    again, _ = prefill(engine, APE(), "ferry", "tern")
    assert again.num_path_chunks == 0
    assert_close(again.logits, alone.logits, **EXACT)


def test_an_evicted_path_is_restored_from_disk_after_a_restart():
    blobs = MemoryBlobs()
    engine = make_engine(blobs=blobs)
    first = ask(engine, "ferry", "tern")
    CacheAdmin(engine.cache.tree).set_budgets({"host": 0})
    engine.tiers.drain()
    engine.tiers.close()
    restarted = make_engine(blobs=blobs)
    answer = ask(restarted, "ferry", "tern", method="prefix")
    assert cache_results(answer) == ["exact prefix hit"] * 2 and {source.tier for source in answer.sources} == {"disk"}
    assert answer.text == first.text


def test_a_path_with_a_second_hit_is_copied_to_disk():
    blobs = MemoryBlobs()
    engine = make_engine(blobs=blobs)
    ask(engine, "ferry", "tern")
    engine.tiers.drain()
    assert depths(engine) == [1, 2] and len(blobs.tensors) == 1
    ask(engine, "ferry", "tern", method="prefix")
    engine.tiers.drain()
    assert len(blobs.tensors) == 2


def test_deleting_a_passage_deletes_every_path_through_it():
    engine = make_engine()
    ask(engine, "ferry", "tern", "fares")
    ask(engine, "fares", "ferry")
    engine.passages.delete(TEXTS["tern"])
    assert depths(engine) == [1, 1, 2]
    assert cache_results(ask(engine, "ferry", "tern", method="prefix")) == ["exact prefix hit", "miss"]


@pytest.mark.parametrize("method", ["full", "cacheclip"])
def test_a_passage_deleted_while_in_use_is_gone_after_the_answer(method):
    engine = make_engine("ferry", "tern")
    for answer in engine.ask(replace(ASK, method=method)):
        if answer.state == "reading":
            engine.passages.delete(TEXTS["tern"])
    assert answer.state == "done"
    tern = engine.cache.chunk_key(engine.template.passage(TEXTS["tern"]).ids)
    assert len(engine.cache.tree.nodes) == 1 and tern not in engine.cache.tree


def test_a_separate_auxiliary_model_has_ended_before_the_first_token():
    engine = make_engine(auxiliary=tiny.decoder(tiny.qwen2, seed=3, vocab_size=300))
    ask(engine, "ferry", "tern", "fares")
    engine.finder = FixedFinder("ferry", "tern", "fares")
    result = engine.prefill(engine.prepare(ASK, Trace()), CacheClip(0.2), Trace())
    assert result.num_path_chunks == 3
    assert not [thread for thread in enumerate_threads() if thread.name.startswith("auxiliary")]


def test_a_path_may_contain_a_passage_twice():
    engine = make_engine()
    ask(engine, "ferry", "ferry")
    result, reference = prefill(engine, Prefix(), "ferry", "ferry")
    assert result.num_path_chunks == 2
    assert_close(result.logits, reference.logits, **REORDERED)


def test_kv_is_computed_if_reading_it_would_be_slower():
    class FastModel:
        def estimate_ms(self, cached_tokens, computed_tokens):
            return 1.0

        def ms_per_token(self, cached_tokens, computed_tokens):
            return 1.0 / computed_tokens

    cache = ChunkCache(tiny.decoder(), (1, 2), make_hierarchy().tree, FastModel())
    cache.get_or_compute((5, 6, 7))
    cache.tree.tiers[0].ms_per_byte = 1.0
    assert cache.get_or_compute((5, 6, 7))[1] == "computed"
    num_skips = 1
    while cache.get_or_compute((5, 6, 7))[1] == "computed":
        num_skips += 1  # a slow measurement is not trusted forever
    assert 1 < num_skips < 100


def test_eight_bits_halve_the_size_and_restore_close_values():
    blobs, results = MemoryBlobs(), []
    for bits in (16, 8):
        hierarchy = make_hierarchy(host_bytes=0, blobs=blobs, bits=bits)
        cache = ChunkCache(tiny.decoder(), (1, 2), hierarchy.tree)
        kv, _ = cache.get_or_compute(tuple(range(5, 105)))
        hierarchy.drain()
        restored, _ = cache.get_or_compute(tuple(range(5, 105)))
        results.append((hierarchy.tree.tiers[1].size_bytes, kv, restored))
    (full_bytes, kv, exact), (half_bytes, _, rounded) = results
    assert torch.equal(kv.keys, exact.keys) and torch.equal(kv.values, exact.values)
    assert half_bytes < 0.7 * full_bytes  # fp32 here: a quarter, and scales for few channels
    assert (rounded.keys - kv.keys).abs().max() <= kv.keys.abs().max() / 100
    assert (rounded.values - kv.values).abs().max() <= kv.values.abs().max() / 100
    assert rounded.quantized and not exact.quantized


def test_kv_restored_from_eight_bits_is_not_exact():
    blobs = MemoryBlobs()
    engine = make_engine(blobs=blobs, hierarchy=make_hierarchy(blobs=blobs, bits=8))
    ask(engine, "ferry", "tern")
    ask(engine, "ferry", "tern", method="prefix")
    engine.tiers.close()
    restarted = make_engine(blobs=blobs, hierarchy=make_hierarchy(blobs=blobs, bits=8))
    assert cache_results(ask(restarted, "ferry", "tern", method="cacheclip")) == ["chunk hit", "miss"]
    assert cache_results(ask(restarted, "ferry", "tern", method="prefix")) == ["miss", "miss"]
    assert cache_results(ask(restarted, "ferry", "tern", method="prefix")) == ["exact prefix hit"] * 2


def test_a_passage_may_be_deleted_while_its_exact_path_is_stored():
    engine = make_engine()
    ask(engine, "ferry", "tern")
    cache, deleting = engine.cache, []
    is_quantized = cache._is_quantized

    def delete_meanwhile(node):
        if not deleting:
            deleting.append(Thread(target=cache.delete, args=[engine.template.passage(TEXTS["ferry"]).ids]))
            deleting[0].start()
            deleting[0].join(timeout=0.2)
        return is_quantized(node)

    cache._is_quantized = delete_meanwhile
    assert ask(engine, "ferry", "tern").state == "done"
    deleting[0].join()


@pytest.mark.parametrize("method", ["cacheblend", "prophetkv", "infoflow", "qcfuse", "epic", "cacheclip"])
def test_an_exact_context_is_recomputed_only_at_a_ratio_of_one(method):
    engine = make_engine("ferry", "tern")
    ask(engine, "ferry", "tern", method="full")
    assert ask(engine, "ferry", "tern", method=method, recompute_ratio=0.5).recomputed_tokens == 0
    if method != "epic":
        assert ask(engine, "ferry", "tern", method=method, recompute_ratio=1.0).actual_ratio == 1.0


def test_cached_tokens_are_counted_for_each_placement():
    engine = make_engine("ferry", "tern")
    ids = [engine.template.passage(TEXTS[name]).ids for name in ("ferry", "tern")]
    tokens = [len(each) for each in ids]
    for name in ("ferry", "tern"):
        engine.passages.warm(TEXTS[name])
    assert engine.cache.count_cached_tokens(ids) == (sum(tokens), 0)
    assert engine.cache.count_cached_tokens(ids, Placement.EXACT_PREFIX) == (tokens[0], tokens[1])
    assert engine.cache.count_cached_tokens(ids, Placement.NO_PREFIX) == (0, sum(tokens))


def test_deleting_also_deletes_kv_of_models_that_are_not_loaded():
    blobs = MemoryBlobs()
    other = make_engine("ferry", blobs=blobs, build=tiny.qwen3)
    last(other.ask(ASK))
    other.tiers.close()
    engine = make_engine("ferry", "tern", blobs=blobs)
    last(engine.ask(ASK))
    engine.tiers.drain()
    assert len(blobs.tensors) == 3
    engine.passages.delete(TEXTS["ferry"])
    engine.passages.delete_other_models()
    assert len(blobs.tensors) == 1
