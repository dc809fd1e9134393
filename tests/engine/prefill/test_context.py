"""What strategies look at, against transformers' own attention weights; computed once for all of them."""

from concurrent.futures import Future
from dataclasses import replace
from threading import Event

import pytest
import torch
from torch.testing import assert_close
from transformers import DynamicCache

from engine.errors import Cancelled
from engine.prompt.builder import pack
from engine.prompt.template import MAX_QUERY_ROWS
from engine.scoring.trained_selector import SelectorHead, TokenSelector
from engine.strategies import CacheClip, CacheClipJoint, CacheClipTrained, Direct, Full, OracleWindows, ProphetKV
from engine.trace import Trace
from engine.types import Placement, ScoreMode
from tests.engine.test_engine import ASK
from tests.support import tiny
from tests.support.doubles import TEXTS, engine, hit
from tests.support.reference_prefill import assembled
from tests.support.tolerance import EXACT, REORDERED

NAMES = ["ferry", "tern", "crew"]


def prepared(made, names=NAMES):
    return pack(made.prompt, replace(ASK, method="oracle"), [hit(name, TEXTS[name]) for name in names], made.max_tokens)


@torch.no_grad()
def weights(plain, evidence, ids, prefix, **arguments):
    """Each layer's attention of the question's rows on the context, mean over heads and rows, by transformers."""
    plain.set_attn_implementation("eager")
    found = plain(ids[None], output_attentions=True, **arguments).attentions
    asked = len(evidence.query_rows)
    return torch.stack([layer[0, :, -asked:].mean(dim=(0, 1))[prefix : int(evidence.query_rows[0])] for layer in found])


def test_the_oracle_sees_the_full_prefills_own_attention(family):
    made = engine(build=family)
    evidence = made.prompt_context(prepared(made), Trace())
    expected = weights(tiny.model(family), evidence, evidence.ids, len(made.prompt.prefix))
    assert_close(evidence.reference.attention, expected, **REORDERED)
    assert_close(evidence.selection_context().oracle_attention(), expected[-1], **REORDERED)


def test_every_prompt_draws_a_lot_of_its_own():
    made = engine()
    views = [
        made.prompt_context(prepared(made, names), Trace()).selection_context() for names in (NAMES, NAMES, NAMES[::-1])
    ]
    assert views[0].seed == views[1].seed != views[2].seed


def test_being_watched_changes_no_logit():
    made = engine()
    reading = prepared(made)
    plain = made.prefill(reading, Full(), Trace()).logits
    assert_close(made.prompt_context(reading, Trace()).reference.logits, plain, **EXACT)


def test_the_questions_attention_is_that_over_the_assembled_chunks(family):
    made, plain = engine(build=family), tiny.model(family)
    evidence, prefix = made.prompt_context(prepared(made), Trace()), len(made.prompt.prefix)
    start, cache = int(evidence.query_rows[0]), DynamicCache()
    for number, (keys, values) in enumerate(assembled(plain, evidence.ids, prefix, evidence.spans)):
        cache.update(keys[:, :, :start], values[:, :, :start], number)
    expected = weights(plain, evidence, evidence.ids[start:], prefix, past_key_values=cache)
    assert_close(evidence.attention, expected, **REORDERED)


def test_what_is_shared_is_computed_once():
    made = engine()
    reading = prepared(made)
    trace = Trace()
    evidence = made.prompt_context(reading, trace)
    windows = (CacheClip(0.2), CacheClip(0.5), OracleWindows(0.2), OracleWindows(0.5))
    for strategy in (*windows, ProphetKV(0.2), Direct()):
        made.prefill(reading, strategy, Trace(), evidence=evidence)
    assert sorted(stage.name for stage in trace.stages) == ["auxiliary", "full prefill", "question"]
    for strategy in (CacheClipTrained(0.2), CacheClipJoint(0.2)):  # without a selector these are one
        made.prefill(reading, strategy, Trace(), evidence=evidence)
    assert sorted(stage.name for stage in trace.stages) == ["auxiliary", "auxiliary", "full prefill", "question"]


@pytest.mark.parametrize("names, exact", [(NAMES[:1], 0), (NAMES, 3), (NAMES, 2), (NAMES, 0)])
def test_a_selector_is_asked_only_where_something_is_left_to_recompute(names, exact):
    """A single passage is exact as it stands, and so is a path that an earlier question computed."""
    made, trace = engine(), Trace()
    made.auxiliary = replace(made.auxiliary, selector=TokenSelector(tiny.encoder(), SelectorHead(32, 8, 32)))
    if exact:
        made.store_results(known := prepared(made, names[:exact]), made.prefill(known, Full(), Trace()))
    made.prefill(prepared(made, names), CacheClipTrained(0.5), trace)
    assert ("auxiliary" in {stage.name for stage in trace.stages}) == (len(names) > max(1, exact))


@pytest.mark.parametrize("strategy", [CacheClip(0.3), OracleWindows(0.3), ProphetKV(0.3), Direct()])
def test_shared_evidence_gives_what_evidence_of_its_own_gives(strategy):
    made = engine()
    reading = prepared(made)
    evidence = made.prompt_context(reading, Trace())
    for other in (ProphetKV(0.7), OracleWindows(0.7), CacheClip(0.7)):
        made.prefill(reading, other, Trace(), evidence=evidence)
    shared = made.prefill(reading, strategy, Trace(), evidence=evidence)
    own = made.prefill(reading, strategy, Trace())
    assert_close(shared.logits, own.logits, **EXACT)
    assert torch.equal(shared.rows, own.rows)


def test_naive_chunks_are_computed_without_any_prefix_and_stay_where_they_were(family):
    made, plain = engine(build=family), tiny.model(family)
    evidence = made.prompt_context(prepared(made), Trace())
    buffer = evidence.assemble(Placement.NO_PREFIX)
    for span in evidence.spans:
        with torch.no_grad():
            cached = plain(evidence.ids[None, span.start : span.stop], use_cache=True).past_key_values.layers
        for layer, alone in enumerate(cached):
            place = slice(span.start, span.stop)
            assert_close(buffer.keys[layer][:, place], alone.keys[0], **REORDERED)
            assert_close(buffer.values[layer][:, place], alone.values[0], **REORDERED)


def test_a_deleted_passage_takes_its_prefixless_kv_along():
    made = engine("ferry")
    ids = made.prompt.passage(TEXTS["ferry"]).ids
    made.cache.without_prefix.get(ids)
    made.forget(TEXTS["ferry"])
    assert made.cache.without_prefix.get(ids)[1] == "computed"


def test_of_a_long_question_the_last_rows_are_watched():
    """The memory of a watched pass must not grow with a pasted text."""
    made = engine()
    reading = prepared(made)
    long = replace(reading, suffix_ids=(5,) * 300 + reading.suffix_ids)
    evidence = made.prompt_context(long, Trace())
    plain = tiny.model()
    plain.set_attn_implementation("eager")
    with torch.no_grad():
        last = plain(evidence.ids[None], output_attentions=True).attentions[-1][0, :, -MAX_QUERY_ROWS:].mean(dim=(0, 1))
    context = slice(len(made.prompt.prefix), int(evidence.query_rows[0]))
    assert_close(evidence.selection_context().oracle_attention(), last[context], **REORDERED)


def test_whoever_waits_for_scores_is_let_go_when_it_is_cancelled():
    made, cancel = engine(), Event()
    evidence = made.prompt_context(prepared(made), Trace(), cancel)
    evidence._scores[ScoreMode.PER_CHUNK] = Future()  # an auxiliary that never ends
    cancel.set()
    with pytest.raises(Cancelled):
        evidence.scores(ScoreMode.PER_CHUNK)
    assert evidence._closed.is_set()


def test_a_single_passage_is_scored_for_nobody():
    made = engine()
    evidence = made.prompt_context(prepared(made, NAMES[:1]), Trace())
    evidence.load(Placement.CONCATENATED, ScoreMode.PER_CHUNK)
    assert not evidence._scores
