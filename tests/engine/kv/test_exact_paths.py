"""Exact paths: KV that was computed behind the same passages is reused as it is, and nothing else poses as exact."""

from dataclasses import replace
from threading import enumerate as enumerate_threads

import pytest
import torch
from torch.testing import assert_close

from engine.kv.chunk_cache import ChunkCache
from engine.request import Request
from engine.strategies import APE, EPIC, CacheBlend, CacheClip, CacheClipJoint, Direct, Full, Naive, Prefix
from engine.trace import Trace
from engine.types import Placement
from tests.support import tiny
from tests.support.doubles import TEXTS, FixedLibrary, MemoryBlobs, engine, last, tiers
from tests.support.tolerance import EXACT, REORDERED

ASK = Request("When does the Old Kestrel sail?", passages=3, max_new_tokens=4)


def ask(made, *names, method="full", **settings):
    made.finder = FixedLibrary(*names)
    return last(made.ask(replace(ASK, method=method, **settings)))


def found(answer):
    return [source.found for source in answer.sources]


def prefilled(made, strategy, *names):
    made.finder = FixedLibrary(*names)
    reading = made.prepare(ASK, Trace())
    return made.prefill(reading, strategy, Trace()), made.prompt_context(reading, Trace()).reference


def depths(made):
    return sorted(1 + len(node.ancestors()) for node in made.cache.tree._copies.nodes.values())


def test_a_full_prefill_is_found_again_as_an_exact_path_and_nothing_is_recomputed(family):
    made = engine(build=family)
    ask(made, "ferry", "tern", "fares")
    ready, reference = prefilled(made, Prefix(), "ferry", "tern", "fares")
    assert (ready.num_path_chunks, ready.num_exact_chunks, len(ready.rows), ready.actual_ratio) == (3, 3, 0, 0.0)
    assert_close(ready.logits, reference.logits, **REORDERED)
    context = ready.buffer.length - len(made.prepare(ASK, Trace()).suffix_ids)
    assert_close(ready.buffer.keys[:, :, :context], reference.buffer.keys[:, :, :context], **REORDERED)


def test_the_longest_path_is_taken_and_the_rest_computed_and_kept():
    made = engine()
    ask(made, "ferry", "tern")
    answer = ask(made, "ferry", "tern", "fares", method="prefix")
    assert found(answer) == ["exact prefix hit", "exact prefix hit", "miss"]
    assert answer.recomputed_tokens == answer.sources[2].tokens
    ready, reference = prefilled(made, Prefix(), "ferry", "tern", "fares")
    assert ready.num_path_chunks == 3
    assert_close(ready.logits, reference.logits, **REORDERED)


def test_another_order_is_another_path():
    made = engine()
    ask(made, "ferry", "tern")
    assert found(ask(made, "tern", "ferry", method="prefix")) == ["miss", "miss"]
    made = engine()
    ask(made, "ferry", "tern")
    assert found(ask(made, "tern", "ferry", method="cacheclip")) == ["miss", "chunk hit"]


@pytest.mark.parametrize("strategy", [CacheClip(0.3), CacheClipJoint(0.3), EPIC(4), CacheBlend(0.3), Direct()])
def test_an_exact_path_takes_nothing_of_the_budget(strategy):
    made = engine()
    ask(made, "ferry", "tern")
    alone, _ = prefilled(engine(), strategy, "ferry", "tern", "fares")
    ready, _ = prefilled(made, strategy, "ferry", "tern", "fares")
    start = (
        ready.buffer.length - len(made.prepare(ASK, Trace()).suffix_ids) - len(made.prompt.passage(TEXTS["fares"]).ids)
    )
    assert ready.num_path_chunks == 2
    assert not len(ready.rows) or int(ready.rows.min()) >= start
    assert len(ready.rows) <= max(len(alone.rows), int(0.3 * ready.buffer.length))


def test_where_every_passage_is_exact_the_answer_is_the_full_prefills():
    made = engine()
    ask(made, "ferry", "tern", "fares")
    ready, reference = prefilled(made, CacheClip(0.2), "ferry", "tern", "fares")
    assert len(ready.rows) == 0
    assert_close(ready.logits, reference.logits, **REORDERED)


@pytest.mark.parametrize("method", ["cacheclip", "cacheclip-v1", "direct", "epic", "ape", "naive", "cacheblend"])
def test_a_patched_result_never_poses_as_exact(method):
    made = engine()
    answer = ask(made, "ferry", "tern", "fares", method=method)
    assert set(depths(made)) == {1}
    assert "exact prefix hit" not in found(answer)
    assert found(ask(made, "ferry", "tern", "fares", method="prefix"))[1:] != ["exact prefix hit"] * 2


@pytest.mark.parametrize(
    ("strategy", "exact"),
    [(Full(), 3), (Prefix(), 3), (CacheClip(1.0), 3), (CacheClip(0.2), 1), (APE(), 0), (Naive(), 0)],
)
def test_how_much_of_a_prompt_is_exact_is_known(strategy, exact):
    ready, reference = prefilled(engine(), strategy, "ferry", "tern", "fares")
    assert ready.num_exact_chunks == exact
    if exact == 3:
        assert_close(ready.logits, reference.logits, **REORDERED)


def test_exact_reuse_computes_nothing_that_it_will_not_use():
    made, computed = engine(), []
    compute = made.cache.compute
    made.cache.compute = lambda ids, cancel: computed.append(ids) or compute(ids, cancel)
    ask(made, "ferry", "tern", method="prefix")
    ask(made, "ferry", "fares", method="prefix")
    assert computed == []


def test_parallel_placements_take_no_path():
    made = engine()
    alone, _ = prefilled(made, APE(), "ferry", "tern")
    ask(made, "ferry", "tern")
    again, _ = prefilled(made, APE(), "ferry", "tern")
    assert again.num_path_chunks == 0
    assert_close(again.logits, alone.logits, **EXACT)


def test_a_path_that_left_memory_comes_back_from_disk_also_after_a_restart():
    blobs = MemoryBlobs()
    made = engine(blobs=blobs)
    first = ask(made, "ferry", "tern")
    for tier in made.cache.tree.tiers[:1]:
        tier.budget_bytes = 0
    made.cache.tree._copies.free_space(0, 0)
    made.tiers.drain()
    made.tiers.close()
    again = engine(blobs=blobs)
    answer = ask(again, "ferry", "tern", method="prefix")
    assert found(answer) == ["exact prefix hit"] * 2 and {source.tier for source in answer.sources} == {"disk"}
    assert answer.text == first.text


def test_a_path_that_is_used_again_is_copied_to_disk():
    blobs = MemoryBlobs()
    made = engine(blobs=blobs)
    ask(made, "ferry", "tern")
    made.tiers.drain()
    assert depths(made) == [1, 2] and len(blobs.held) == 1
    ask(made, "ferry", "tern", method="prefix")
    made.tiers.drain()
    assert len(blobs.held) == 2


def test_a_forgotten_passage_takes_every_path_through_it_along():
    made = engine()
    ask(made, "ferry", "tern", "fares")
    ask(made, "fares", "ferry")
    made.forget(TEXTS["tern"])
    assert depths(made) == [1, 1, 2]
    assert found(ask(made, "ferry", "tern", method="prefix")) == ["exact prefix hit", "miss"]


@pytest.mark.parametrize("method", ["full", "cacheclip"])
def test_a_passage_forgotten_while_a_question_reads_it_is_gone_at_the_end(method):
    made = engine("ferry", "tern")
    for answer in made.ask(replace(ASK, method=method)):
        if answer.state == "reading":
            made.forget(TEXTS["tern"])
    assert answer.state == "done"
    tern = made.cache.key(made.prompt.passage(TEXTS["tern"]).ids)
    assert len(made.cache.tree) == 1 and tern not in made.cache.tree


def test_an_auxiliary_of_its_own_has_ended_when_the_first_token_is_there():
    made = engine(auxiliary=tiny.decoder(tiny.qwen2, seed=3, words=300))
    ask(made, "ferry", "tern", "fares")
    made.finder = FixedLibrary("ferry", "tern", "fares")
    ready = made.prefill(made.prepare(ASK, Trace()), CacheClip(0.2), Trace())
    assert ready.num_path_chunks == 3
    assert not [thread for thread in enumerate_threads() if thread.name.startswith("auxiliary")]


def test_the_same_passage_twice_is_a_path_too():
    made = engine()
    ask(made, "ferry", "ferry")
    ready, reference = prefilled(made, Prefix(), "ferry", "ferry")
    assert ready.num_path_chunks == 2
    assert_close(ready.logits, reference.logits, **REORDERED)


def test_what_would_be_read_more_slowly_than_computed_is_computed():
    class Slow:
        def of(self, cached, computed):
            return 1.0

        def per_token(self, cached, computed):
            return 1.0 / computed

    cache = ChunkCache(tiny.decoder(), (1, 2), tiers().tree, Slow())
    cache.get((5, 6, 7))
    tier = cache.tree.tiers[0]
    tier.ms_per_byte = 1.0
    assert cache.get((5, 6, 7))[1] == "computed"
    asked = 1
    while cache.get((5, 6, 7))[1] == "computed":
        asked += 1  # a slow moment is not believed for ever
    assert 1 < asked < 100


def test_eight_bits_take_half_the_room_and_come_back_close():
    blobs, held = MemoryBlobs(), []
    for bits in (16, 8):
        made = tiers(host_bytes=0, blobs=blobs, bits=bits)
        cache = ChunkCache(tiny.decoder(), (1, 2), made.tree)
        kv, _ = cache.get(tuple(range(5, 105)))
        made.drain()
        held.append((made.tree.tiers[1].size_bytes, kv, cache.get(tuple(range(5, 105)))[0]))
    (full, kv, again), (half, _, near) = held
    assert torch.equal(kv.keys, again.keys) and torch.equal(kv.values, again.values)
    assert half < 0.7 * full  # fp32 here: a quarter, and scales for few channels
    assert (near.keys - kv.keys).abs().max() <= kv.keys.abs().max() / 100
    assert (near.values - kv.values).abs().max() <= kv.values.abs().max() / 100
    assert near.quantized and not again.quantized


def test_what_was_kept_in_eight_bits_is_not_exact():
    blobs = MemoryBlobs()
    made = engine(blobs=blobs, held=tiers(blobs=blobs, bits=8))
    ask(made, "ferry", "tern")
    ask(made, "ferry", "tern", method="prefix")
    made.tiers.close()
    again = engine(blobs=blobs, held=tiers(blobs=blobs, bits=8))
    assert found(ask(again, "ferry", "tern", method="cacheclip")) == ["chunk hit", "miss"]
    assert found(ask(again, "ferry", "tern", method="prefix")) == ["miss", "miss"]
    assert found(ask(again, "ferry", "tern", method="prefix")) == ["exact prefix hit"] * 2  # what was computed is exact


@pytest.mark.parametrize("method", ["cacheblend", "prophetkv", "epic", "cacheclip"])
def test_a_context_that_is_one_exact_path_is_not_recomputed_but_at_a_hundred_percent(method):
    made = engine("ferry", "tern")
    ask(made, "ferry", "tern", method="full")
    assert ask(made, "ferry", "tern", method=method, ratio=0.5).recomputed_tokens == 0
    if method != "epic":
        assert ask(made, "ferry", "tern", method=method, ratio=1.0).realised_ratio == 1.0


def test_what_a_method_finds_at_hand_is_what_it_can_use():
    made = engine("ferry", "tern")
    ids = [made.prompt.passage(TEXTS[name]).ids for name in ("ferry", "tern")]
    tokens = [len(each) for each in ids]
    for name in ("ferry", "tern"):
        made.warm(TEXTS[name])
    assert made.cache.ready(ids) == (sum(tokens), 0)
    assert made.cache.ready(ids, Placement.EXACT_PREFIX) == (tokens[0], tokens[1])
    assert made.cache.ready(ids, Placement.NO_PREFIX) == (0, sum(tokens))


def test_deleting_takes_the_kv_of_models_that_are_not_loaded_along():
    blobs = MemoryBlobs()
    other = engine("ferry", blobs=blobs, build=tiny.qwen3)
    last(other.ask(ASK))
    other.tiers.close()
    made = engine("ferry", "tern", blobs=blobs)
    last(made.ask(ASK))
    made.tiers.drain()
    assert len(blobs.held) == 3
    made.forget(TEXTS["ferry"])
    made.forget_others()
    assert len(blobs.held) == 1
