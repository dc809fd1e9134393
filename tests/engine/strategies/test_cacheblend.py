"""CacheBlend's deviations against plain forward passes of transformers, and its pass against a dense one."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from engine.model.kv_buffer import RowPass
from engine.prefill.prefill import prefill_filtered
from engine.prompt.pack import pack
from engine.strategies import CacheBlend
from engine.trace import Trace
from engine.types import Placement
from tests.engine.test_engine import ASK
from tests.support import tiny
from tests.support.doubles import TEXTS, make_engine, make_hit
from tests.support.reference_prefill import assemble_kv, kv_layers, rotate_keys
from tests.support.tolerance import REORDERED

NAMES = ["ferry", "tern", "fares"]


@pytest.fixture
def engine(family):
    return make_engine(build=family)


@pytest.fixture
def prompt(engine):
    hits = [make_hit(name, TEXTS[name]) for name in NAMES]
    return pack(engine.template, replace(ASK, method="cacheblend"), hits, engine.max_tokens)


@pytest.fixture
def context(engine, prompt):
    return engine.prompt_context(prompt, Trace())


def filtered_pass(context, row_filter):
    """Run all context rows and the question through a row filter."""
    rows = torch.arange(context.spans[0].start, context.spans[-1].stop)
    return prefill_filtered(context, context.assemble(Placement.CONCATENATED), rows, row_filter)


def expected_deviation(family, engine, context, layer):
    """Two plain passes: over everything, and over each chunk after the prefix."""
    model, prefix = tiny.model(family), engine.template.prefix_ids
    fresh = kv_layers(model, context.ids.tolist())[layer]
    deviations = {"keys": [], "values": []}
    for span in context.spans:
        slots = slice(span.start, span.stop)
        cached = kv_layers(model, [*prefix, *context.ids[slots].tolist()])[layer]
        cached_keys = rotate_keys(model, cached.keys[0, :, len(prefix) :], span.start - len(prefix))
        for name, new, old in (
            ("keys", fresh.keys[0, :, slots], cached_keys),
            ("values", fresh.values[0, :, slots], cached.values[0, :, len(prefix) :]),
        ):
            deviations[name].append((new - old).square().sum(dim=(0, 2)))
    return {name: torch.cat(parts) for name, parts in deviations.items()}


@pytest.mark.parametrize("check_layer", [1, 2])
def test_deviations_are_the_difference_of_two_plain_forward_passes(family, engine, context, check_layer):
    deviations = {}

    def measure_only(layer, deviation):
        deviations[layer] = deviation()

    filtered_pass(context, measure_only)
    expected = expected_deviation(family, engine, context, check_layer)
    assert_close(deviations[check_layer].values, expected["values"], rtol=1e-3, atol=1e-3)
    assert_close(deviations[check_layer].keys, expected["keys"], rtol=1e-3, atol=1e-3)
    assert expected["values"][len(context.spans[0]) :].max() > 0.1


def dense_logits(family, engine, context, rows_at):
    """Logits when, in each layer, only `rows_at[layer]` and the question take their fresh keys and values.

    Every token runs in every layer, with transformers' own modules; a stale row's keys and values are overwritten by
    those of its chunk alone.
    """
    model = tiny.model(family)
    cached = assemble_kv(model, context.ids, len(engine.template.prefix_ids), context.spans)

    class MixedCache:
        def update(self, keys, values, layer, *args, **kwargs):
            is_fresh = torch.zeros(keys.shape[2], dtype=torch.bool)
            is_fresh[torch.cat((rows_at[layer], context.query_rows))] = True
            mask = is_fresh[None, None, :, None]
            return torch.where(mask, keys, cached[layer][0]), torch.where(mask, values, cached[layer][1])

        def get_seq_length(self, *args):
            return 0

    model.set_attn_implementation("eager")
    num_tokens = len(context.ids)
    hidden = model.model.embed_tokens(context.ids[None])
    rotation = model.model.rotary_emb(hidden, torch.arange(num_tokens)[None])
    mask = torch.full((num_tokens, num_tokens), torch.finfo(torch.float32).min).triu(1)[None, None]
    with torch.no_grad():
        for layer in model.model.layers:
            hidden = layer(hidden, attention_mask=mask, position_embeddings=rotation, past_key_values=MixedCache())
        return model.lm_head(model.model.norm(hidden[0, -1]))


@pytest.mark.parametrize("deviation", ["values", "keys"])
@pytest.mark.parametrize("gradual", [False, True])
def test_the_pass_is_the_dense_one_with_stale_rows_left_stale(family, engine, context, deviation, gradual):
    strategy = CacheBlend(ratio=0.3, deviation=deviation, gradual=gradual)
    logits, rows_at, _ = filtered_pass(context, strategy.plan(context.selection_context()).row_filter)
    num_rows = [len(rows) for rows in rows_at]
    assert_close(logits, dense_logits(family, engine, context, rows_at), **REORDERED)
    assert num_rows[0] == sum(map(len, context.spans)) and num_rows[1] < num_rows[0]
    assert (num_rows[2] < num_rows[1]) == gradual


def test_gradual_filtering_keeps_the_mean_ratio_and_starts_above_it(engine, prompt):
    for ratio in (0.0, 0.2, 0.5, 0.9, 1.0):
        result = engine.prefill(prompt, CacheBlend(ratio=ratio, gradual=True), Trace())
        assert result.actual_ratio == pytest.approx(ratio, abs=0.02)
        assert len(result.rows) >= int(ratio * prompt.context_tokens)


def test_a_ratio_of_one_is_full_prefill(engine, prompt, context):
    result = engine.prefill(prompt, CacheBlend(ratio=1.0), Trace())
    assert_close(result.logits, context.reference.logits, **REORDERED)
    assert result.actual_ratio == 1.0


@pytest.mark.parametrize("gradual", [False, True])
def test_flops_are_those_of_every_row_in_every_layer(engine, prompt, monkeypatch, gradual):
    decoder, rows_by_layer, slots_by_count = engine.cache.decoder, [], {}

    def row_pass(buffer, slots):
        slots_by_count[len(slots)] = slots
        return RowPass(buffer, slots)

    monkeypatch.setattr("engine.prefill.prefill.RowPass", row_pass)
    engine.prefill(prompt, CacheBlend(ratio=0.3), Trace())  # caches chunk KV
    layers = decoder.model.model.layers
    hooks = [
        layer.mlp.register_forward_hook(lambda module, inputs, output: rows_by_layer.append(inputs[0].shape[1]))
        for layer in layers
    ]
    result = engine.prefill(prompt, CacheBlend(ratio=0.3, gradual=gradual), Trace())
    for hook in hooks:
        hook.remove()
    assert len(rows_by_layer) == len(layers) and rows_by_layer[0] > rows_by_layer[1]
    weights = sum(weight.numel() for weight in layers[0].parameters() if weight.ndim == 2)
    keys = sum(int((slots_by_count[count] + 1).sum()) for count in rows_by_layer)  # all slots up to the row's own
    expected = 2.0 * weights * sum(rows_by_layer) + 4.0 * decoder.spec.num_heads * decoder.spec.head_dim * keys
    assert result.flops == pytest.approx(expected, rel=0.01)  # norms and biases are not counted
