"""The attention after a compressed view against transformers' own layers, whose mask hides all but the anchors."""

import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from engine.prefill.compressed_view import find_anchors
from engine.prompt.template import MAX_QUERY_ROWS
from engine.strategies import Full, InfoFlow, QCFuse
from engine.trace import Trace
from engine.types import Placement
from tests.engine.prefill.test_context import NAMES, assembled_cache, prepare
from tests.support import tiny
from tests.support.doubles import make_engine
from tests.support.tolerance import DEEP, REORDERED


def by_distinctiveness(keys):
    """Tokens in ascending order of their cosines with the mean unit key, summed over heads; `keys` [H, T, D]."""
    cosines = [0.0] * keys.shape[1]
    for head in keys.double().tolist():
        units = [[x / math.hypot(*key) for x in key] for key in head]
        mean = [sum(column) / len(units) for column in zip(*units, strict=True)]
        for token, unit in enumerate(units):
            cosines[token] += sum(x * y for x, y in zip(unit, mean, strict=True)) / math.hypot(*mean)
    return sorted(range(len(cosines)), key=cosines.__getitem__)


def hidden_slots(keys, spans, anchor_ratio):
    """The chunks' slots that are no anchors; `keys` [H, T, D] of one layer."""
    hidden = []
    for span in spans:
        ranked = by_distinctiveness(keys[:, span.start : span.stop])
        hidden += [span[token] for token in ranked[math.ceil(round(anchor_ratio * len(span), 6)) :]]
    return hidden


@torch.no_grad()
def reference_attention(model, context, prefix_tokens, anchor_ratio, critical_layer):
    """The mean attention of the critical layer to the context; every earlier layer has its own mask."""
    model.set_attn_implementation("eager")
    cache, start, rows = assembled_cache(model, context, prefix_tokens), int(context.query_rows[0]), context.query_rows
    rows = rows[-MAX_QUERY_ROWS:]
    hidden = model.model.embed_tokens(context.ids[rows][None])
    rotation = model.model.rotary_emb(hidden, rows[None])
    causal = torch.zeros(len(rows), start + len(rows))
    causal[:, start:] = torch.full((len(rows), len(rows)), float("-inf")).triu(1)
    for number in range(critical_layer + 1):
        mask = causal.clone()
        if number < critical_layer:
            mask[:, hidden_slots(cache.layers[number].keys[0], context.spans, anchor_ratio)] = float("-inf")
        layer, recorded = model.model.layers[number], []
        hook = layer.self_attn.register_forward_hook(lambda *call, recorded=recorded: recorded.append(call[2][1]))
        hidden = layer(hidden, attention_mask=mask[None, None], position_embeddings=rotation, past_key_values=cache)
        hook.remove()
    return recorded[0][0, :, :, prefix_tokens:start].mean(dim=(0, 1))


@pytest.mark.parametrize("anchor_ratio, layer", [(0.15, 2), (0.5, 1), (0.0, 2), (0.3, 0)])
def test_attention_is_that_of_layers_which_see_only_anchors_before_the_critical_one(family, anchor_ratio, layer):
    engine = make_engine(build=family)
    context, prefix_tokens = engine.prompt_context(prepare(engine), Trace()), len(engine.template.prefix_ids)
    expected = reference_attention(tiny.model(family), context, prefix_tokens, anchor_ratio, layer)
    found = context.selection_context().compressed_view_attention(anchor_ratio, layer)
    assert_close(found, expected, **DEEP)


def test_all_tokens_as_anchors_give_the_attention_over_the_assembled_chunks():
    engine = make_engine()
    context = engine.prompt_context(prepare(engine), Trace())
    for layer in range(3):
        assert_close(context.compressed_view_attention(1.0, layer), context.question_attention[layer], **REORDERED)


def test_chunks_of_an_exact_path_are_moved_from_their_own_positions():
    engine = make_engine()
    known = prepare(engine, NAMES[:2])
    engine.store_results(known, engine.prefill(known, Full(), Trace()))
    context = engine.prompt_context(prepare(engine), Trace())
    _, second, third = context.chunk_set(Placement.CONCATENATED).chunks
    assert second.start > third.start
    for layer in range(3):
        assert_close(context.compressed_view_attention(1.0, layer), context.question_attention[layer], **REORDERED)


def test_of_a_pasted_text_only_the_end_is_run():
    engine = make_engine()
    prompt = prepare(engine)
    context = engine.prompt_context(replace(prompt, suffix_ids=(5,) * 300 + prompt.suffix_ids), Trace())
    expected = reference_attention(tiny.model(), context, len(engine.template.prefix_ids), 0.15, 1)
    assert_close(context.compressed_view_attention(0.15, 1), expected, **DEEP)


@pytest.mark.parametrize("ratio, count", [(0.0, 0), (0.01, 1), (0.15, 3), (0.151, 4), (1.0, 20)])
def test_anchors_are_the_tokens_with_the_most_distinctive_keys_of_each_layer(ratio, count):
    keys = torch.randn(2, 3, 20, 8, generator=torch.Generator().manual_seed(0))
    anchors = find_anchors(keys, ratio)
    assert anchors.shape == (2, count)
    assert anchors.tolist() == [by_distinctiveness(layer)[:count] for layer in keys]


@pytest.mark.parametrize("strategy", [InfoFlow(0.5), QCFuse(0.5), QCFuse(0.5, anchors=0.0), QCFuse(0.5, depth=1.0)])
@pytest.mark.parametrize("names", [[], NAMES[:1], [NAMES[0]] * 3, NAMES])
@pytest.mark.parametrize("question_tokens", [1, 9])
def test_the_budget_holds_for_no_one_and_repeated_passages_and_a_question_of_one_token(
    strategy, names, question_tokens
):
    engine = make_engine()
    prompt = prepare(engine, names)
    prompt = replace(prompt, suffix_ids=prompt.suffix_ids[-question_tokens:])
    result = engine.prefill(prompt, strategy, Trace())
    rows, spans = result.rows.tolist(), engine.prompt_context(prompt, Trace()).spans
    after_first = [slot for span in spans[1:] for slot in span]
    assert rows == sorted(set(rows)) and set(rows) <= set(after_first)
    assert len(rows) == min(sum(map(len, spans)) // 2, len(after_first))
    assert result.logits.isfinite().all()
