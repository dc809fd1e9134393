"""CacheBlend's deviations against plain forward passes of transformers, and its pass against a dense one."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from engine.model.kv_buffer import RowPass
from engine.prefill.row_filter import prefill_filtered
from engine.prompt.builder import pack
from engine.strategies import CacheBlend
from engine.trace import Trace
from engine.types import Placement
from tests.engine.test_engine import ASK
from tests.support import tiny
from tests.support.doubles import TEXTS, engine, hit
from tests.support.reference_prefill import assembled, layers_of, moved
from tests.support.tolerance import REORDERED

NAMES = ["ferry", "tern", "fares"]


@pytest.fixture
def made(family):
    return engine(build=family)


@pytest.fixture
def evidence(made):
    hits = [hit(name, TEXTS[name]) for name in NAMES]
    reading = pack(made.prompt, replace(ASK, method="cacheblend"), hits, made.max_tokens)
    return made.prompt_context(reading, Trace())


def expected_deviation(family, made, evidence, layer):
    """Two plain passes: over everything, and over each chunk behind the prefix."""
    plain, prefix = tiny.model(family), made.prompt.prefix
    fresh = layers_of(plain, evidence.ids.tolist())[layer]
    deviations = {"keys": [], "values": []}
    for span in evidence.spans:
        place = slice(span.start, span.stop)
        cached = layers_of(plain, [*prefix, *evidence.ids[place].tolist()])[layer]
        old_keys = moved(plain, cached.keys[0, :, len(prefix) :], span.start - len(prefix))
        for name, new, old in (
            ("keys", fresh.keys[0, :, place], old_keys),
            ("values", fresh.values[0, :, place], cached.values[0, :, len(prefix) :]),
        ):
            deviations[name].append((new - old).square().sum(dim=(0, 2)))
    return {name: torch.cat(parts) for name, parts in deviations.items()}


@pytest.mark.parametrize("check_layer", [1, 2])
def test_deviations_are_the_difference_of_two_plain_forward_passes(family, made, evidence, check_layer):
    seen = {}

    def thin(layer, deviation):
        seen[layer] = deviation()

    rows = torch.cat((*(torch.arange(span.start, span.stop) for span in evidence.spans), evidence.query_rows))
    buffer = evidence.assemble(Placement.CONCATENATED)
    prefill_filtered(made.cache.decoder, evidence.ids[rows], buffer, rows, len(evidence.query_rows), thin)
    expected = expected_deviation(family, made, evidence, check_layer)
    assert_close(seen[check_layer].values, expected["values"], rtol=1e-3, atol=1e-3)
    assert_close(seen[check_layer].keys, expected["keys"], rtol=1e-3, atol=1e-3)
    assert expected["values"][len(evidence.spans[0]) :].max() > 0.1


def dense(family, made, evidence, rows_at):
    """Logits when, in each layer, only `rows_at[layer]` and the question take their fresh keys and values.

    Every token runs in every layer, with transformers' own modules; a stale row's keys and values are overwritten by
    those of its chunk alone.
    """
    plain = tiny.model(family)
    old = assembled(plain, evidence.ids, len(made.prompt.prefix), evidence.spans)

    class Mixed:
        def update(self, keys, values, layer, *args, **kwargs):
            fresh = torch.zeros(keys.shape[2], dtype=torch.bool)
            fresh[torch.cat((rows_at[layer], evidence.query_rows))] = True
            pick = fresh[None, None, :, None]
            return torch.where(pick, keys, old[layer][0]), torch.where(pick, values, old[layer][1])

        def get_seq_length(self, *args):
            return 0

    plain.set_attn_implementation("eager")
    positions = torch.arange(len(evidence.ids))[None]
    hidden = plain.model.embed_tokens(evidence.ids[None])
    where = plain.model.rotary_emb(hidden, positions)
    mask = torch.full((len(evidence.ids),) * 2, torch.finfo(torch.float32).min).triu(1)[None, None]
    with torch.no_grad():
        for layer in plain.model.layers:
            hidden = layer(hidden, attention_mask=mask, position_embeddings=where, past_key_values=Mixed())
        return plain.lm_head(plain.model.norm(hidden[0, -1]))


@pytest.mark.parametrize("deviation", ["values", "keys"])
@pytest.mark.parametrize("gradual", [False, True])
def test_the_pass_is_the_dense_one_with_stale_rows_left_stale(family, made, evidence, deviation, gradual):
    strategy = CacheBlend(ratio=0.3, deviation=deviation, gradual=gradual)
    taken = []

    def watched(layer, measure):
        kept = strategy.plan(evidence.selection_context()).row_filter(layer, measure)
        taken.append(kept)
        return kept

    context = torch.cat([torch.arange(span.start, span.stop) for span in evidence.spans])
    rows, buffer = torch.cat((context, evidence.query_rows)), evidence.assemble(Placement.CONCATENATED)
    decoder, asked = made.cache.decoder, len(evidence.query_rows)
    left = prefill_filtered(decoder, evidence.ids[rows], buffer, rows, asked, watched)
    assert_close(left.logits, dense(family, made, evidence, left.rows), **REORDERED)
    assert len(left.rows[0]) == len(context) and len(left.rows[1]) < len(context)
    assert (len(left.rows[2]) < len(left.rows[1])) == gradual


def test_gradual_filtering_keeps_the_ratio_in_the_mean_and_starts_wider(made, evidence):
    reading = pack(made.prompt, ASK, [hit(name, TEXTS[name]) for name in NAMES], made.max_tokens)
    for ratio in (0.0, 0.2, 0.5, 0.9, 1.0):
        ready = made.prefill(reading, CacheBlend(ratio=ratio, gradual=True), Trace())
        assert ready.actual_ratio == pytest.approx(ratio, abs=0.02)
        assert len(ready.rows) >= int(ratio * reading.context_tokens)


def test_a_ratio_of_one_is_full_prefill(made, evidence):
    reading = pack(made.prompt, ASK, [hit(name, TEXTS[name]) for name in NAMES], made.max_tokens)
    found = made.prefill(reading, CacheBlend(ratio=1.0), Trace())
    assert_close(found.logits, evidence.reference.logits, **REORDERED)
    assert found.actual_ratio == 1.0


@pytest.mark.parametrize("gradual", [False, True])
def test_its_operations_are_those_of_every_row_in_every_layer(made, monkeypatch, gradual):
    decoder, passed, slots = made.cache.decoder, [], {}

    def rows(buffer, taken):
        slots[len(taken)] = taken
        return RowPass(buffer, taken)

    monkeypatch.setattr("engine.prefill.row_filter.RowPass", rows)
    reading = pack(made.prompt, ASK, [hit(name, TEXTS[name]) for name in NAMES], made.max_tokens)
    made.prefill(reading, CacheBlend(ratio=0.3), Trace())  # chunk KV is there now
    layers = decoder._body.layers
    hooks = [layer.mlp.register_forward_hook(lambda _, went, __: passed.append(went[0].shape[1])) for layer in layers]
    ready = made.prefill(reading, CacheBlend(ratio=0.3, gradual=gradual), Trace())
    for hook in hooks:
        hook.remove()
    assert len(passed) == len(layers) and passed[0] > passed[1]
    weights = sum(weight.numel() for weight in layers[0].parameters() if weight.ndim == 2)
    keys = sum(int((slots[count] + 1).sum()) for count in passed)  # a row sees every slot up to its own
    expected = 2.0 * weights * sum(passed) + 4.0 * decoder.spec.heads * decoder.spec.width * keys
    assert ready.operations == pytest.approx(expected, rel=0.01)  # norms and biases are not counted apart
