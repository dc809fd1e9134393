"""A prompt's context against transformers' own attention weights; each input is computed once."""

from dataclasses import replace
from threading import Event

import pytest
import torch
from torch.testing import assert_close
from transformers import DynamicCache

from engine.errors import Cancelled
from engine.prompt.pack import pack
from engine.prompt.template import MAX_QUERY_ROWS
from engine.scoring.auxiliary import AuxiliaryScorer
from engine.scoring.trained_selector import SelectorHead, TokenSelector
from engine.strategies import (
    CacheClip,
    CacheClipJoint,
    CacheClipTrained,
    Direct,
    Full,
    InfoFlow,
    OracleWindows,
    ProphetKV,
    QCFuse,
)
from engine.trace import Trace
from engine.types import Placement, ScoreMode
from tests.engine.test_engine import ASK
from tests.support import tiny
from tests.support.doubles import TEXTS, make_engine, make_hit
from tests.support.reference_prefill import assemble_kv
from tests.support.tolerance import EXACT, REORDERED

NAMES = ["ferry", "tern", "crew"]


def prepare(engine, names=NAMES):
    hits = [make_hit(name, TEXTS[name]) for name in names]
    return pack(engine.template, replace(ASK, method="oracle"), hits, engine.max_tokens)


@torch.no_grad()
def question_weights(model, context, ids, prefix_tokens, **arguments):
    """Each layer's attention of the question's rows to the context, [L, query heads, rows, T], by transformers."""
    model.set_attn_implementation("eager")
    attentions = model(ids[None], output_attentions=True, **arguments).attentions
    rows, slots = len(context.query_rows), slice(prefix_tokens, int(context.query_rows[0]))
    return torch.stack([layer[0, :, -rows:, slots] for layer in attentions])


def assembled_cache(model, context, prefix_tokens):
    """A cache with the prefix and the assembled chunks."""
    start, cache = int(context.query_rows[0]), DynamicCache()
    for number, (keys, values) in enumerate(assemble_kv(model, context.ids, prefix_tokens, context.spans)):
        cache.update(keys[:, :, :start], values[:, :, :start], number)
    return cache


def test_oracle_attention_is_the_full_prefills_own(family):
    engine = make_engine(build=family)
    context = engine.prompt_context(prepare(engine), Trace())
    weights = question_weights(tiny.model(family), context, context.ids, len(engine.template.prefix_ids))
    expected = weights.mean(dim=(1, 2))
    assert_close(context.reference.attention, expected, **REORDERED)
    assert_close(context.selection_context().oracle_attention(), expected[-1], **REORDERED)


def test_every_prompt_has_its_own_seed():
    engine = make_engine()
    orders = (NAMES, NAMES, NAMES[::-1])
    seeds = [engine.prompt_context(prepare(engine, names), Trace()).selection_context().seed for names in orders]
    assert seeds[0] == seeds[1] != seeds[2]


def test_recording_attention_changes_no_logit():
    engine = make_engine()
    prompt = prepare(engine)
    logits = engine.prefill(prompt, Full(), Trace()).logits
    assert_close(engine.prompt_context(prompt, Trace()).reference.logits, logits, **EXACT)


def test_question_attention_and_its_norm_are_those_over_the_assembled_chunks(family):
    engine, model = make_engine(build=family), tiny.model(family)
    context, prefix_tokens = engine.prompt_context(prepare(engine), Trace()), len(engine.template.prefix_ids)
    cache = assembled_cache(model, context, prefix_tokens)
    question = context.ids[context.query_rows]
    weights = question_weights(model, context, question, prefix_tokens, past_key_values=cache)
    assert_close(context.question_attention, weights.mean(dim=(1, 2)), **REORDERED)
    norm = weights.mean(dim=1).square().sum(dim=1).sqrt()
    assert_close(context.selection_context().question_attention_norm(), norm, **REORDERED)


def test_a_shared_context_computes_each_input_once():
    engine = make_engine()
    prompt = prepare(engine)
    trace = Trace()
    context = engine.prompt_context(prompt, trace)
    windows = (CacheClip(0.2), CacheClip(0.5), OracleWindows(0.2), OracleWindows(0.5))
    for strategy in (*windows, ProphetKV(0.2), InfoFlow(0.2), InfoFlow(0.5), Direct()):
        engine.prefill(prompt, strategy, Trace(), context=context)
    assert sorted(stage.name for stage in trace.stages) == ["auxiliary", "full prefill", "question"]
    for strategy in (CacheClipTrained(0.2), CacheClipJoint(0.2)):  # the same scores without a selector
        engine.prefill(prompt, strategy, Trace(), context=context)
    assert sorted(stage.name for stage in trace.stages) == ["auxiliary", "auxiliary", "full prefill", "question"]
    for strategy in (QCFuse(0.2), QCFuse(0.5), QCFuse(0.2, depth=0.0)):  # two layers, two passes
        engine.prefill(prompt, strategy, Trace(), context=context)
    assert [stage.name for stage in trace.stages].count("question") == 3


@pytest.mark.parametrize("names, num_known", [(NAMES[:1], 0), (NAMES, 3), (NAMES, 2), (NAMES, 0)])
def test_a_selector_runs_only_if_some_passage_is_not_exact(names, num_known):
    """A single passage is exact, and so is a path that an earlier question computed."""
    engine, trace = make_engine(selector=TokenSelector(tiny.encoder(), SelectorHead(32, 8, 32))), Trace()
    if num_known:
        known = prepare(engine, names[:num_known])
        engine.store_results(known, engine.prefill(known, Full(), Trace()))
    engine.prefill(prepare(engine, names), CacheClipTrained(0.5), trace)
    assert ("auxiliary" in {stage.name for stage in trace.stages}) == (len(names) > max(1, num_known))


SHARED = [CacheClip(0.3), OracleWindows(0.3), ProphetKV(0.3), InfoFlow(0.3), QCFuse(0.3), Direct()]


@pytest.mark.parametrize("strategy", SHARED)
def test_a_shared_context_gives_the_same_result_as_an_own_one(strategy):
    engine = make_engine()
    prompt = prepare(engine)
    context = engine.prompt_context(prompt, Trace())
    for other in (ProphetKV(0.7), OracleWindows(0.7), CacheClip(0.7), QCFuse(0.7)):
        engine.prefill(prompt, other, Trace(), context=context)
    shared = engine.prefill(prompt, strategy, Trace(), context=context)
    own = engine.prefill(prompt, strategy, Trace())
    assert_close(shared.logits, own.logits, **EXACT)
    assert torch.equal(shared.rows, own.rows)


def test_naive_chunks_are_computed_without_a_prefix_and_not_rotated(family):
    engine, model = make_engine(build=family), tiny.model(family)
    context = engine.prompt_context(prepare(engine), Trace())
    buffer = context.assemble(Placement.NO_PREFIX)
    for span in context.spans:
        slots = slice(span.start, span.stop)
        with torch.no_grad():
            layers = model(context.ids[None, slots], use_cache=True).past_key_values.layers
        for number, layer in enumerate(layers):
            assert_close(buffer.keys[number][:, slots], layer.keys[0], **REORDERED)
            assert_close(buffer.values[number][:, slots], layer.values[0], **REORDERED)


def test_deleting_a_passage_deletes_its_kv_without_prefix():
    engine = make_engine("ferry")
    ids = engine.template.passage(TEXTS["ferry"]).ids
    engine.cache.without_prefix.get_or_compute(ids)
    engine.passages.delete(TEXTS["ferry"])
    assert engine.cache.without_prefix.get_or_compute(ids)[1] == "computed"


def test_only_the_last_rows_of_a_long_question_are_recorded():
    """The memory of the recording must not grow with a pasted text."""
    engine = make_engine()
    prompt = prepare(engine)
    context = engine.prompt_context(replace(prompt, suffix_ids=(5,) * 300 + prompt.suffix_ids), Trace())
    model = tiny.model()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        attention = model(context.ids[None], output_attentions=True).attentions[-1]
    expected = attention[0, :, -MAX_QUERY_ROWS:].mean(dim=(0, 1))
    slots = slice(len(engine.template.prefix_ids), int(context.query_rows[0]))
    assert_close(context.selection_context().oracle_attention(), expected[slots], **REORDERED)


def test_waiting_for_scores_ends_when_the_request_is_cancelled(monkeypatch):
    engine, cancel = make_engine(), Event()
    started, stopped = Event(), Event()

    def score(self, question, texts, primary, mode, chunks, closed, touched_nodes):
        started.set()
        closed.wait()  # ends only when it is cancelled
        stopped.set()

    monkeypatch.setattr(AuxiliaryScorer, "score", score)
    context = engine.prompt_context(prepare(engine), Trace(), cancel)
    context.load(Placement.CONCATENATED, ScoreMode.PER_CHUNK)
    started.wait()
    cancel.set()
    with pytest.raises(Cancelled):
        context.scores(ScoreMode.PER_CHUNK)
    stopped.wait()


def test_a_single_passage_is_not_scored():
    engine, trace = make_engine(), Trace()
    context = engine.prompt_context(prepare(engine, NAMES[:1]), trace)
    context.load(Placement.CONCATENATED, ScoreMode.PER_CHUNK)
    context.close()
    assert trace.stages == []
