"""Laws 2 to 4, against transformers' own forward pass with its own cache, mask and attention."""

import pytest
import torch
from torch.testing import assert_close

from engine.kv.assemble import assemble
from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer, RowPass
from engine.model.sampling import SamplingParams, decode
from engine.types import ChunkKV
from tests.support import tiny
from tests.support.tolerance import EXACT, REORDERED, rotated

GENERATOR = torch.Generator().manual_seed(1)
PREFIX, FIRST, SECOND = (torch.randint(0, 512, (n,), generator=GENERATOR) for n in (7, 150, 93))
QUESTION = torch.randint(0, 512, (11,), generator=GENERATOR)
PROMPT = torch.cat((PREFIX, FIRST, SECOND, QUESTION))
CONTEXT = len(PREFIX) + len(FIRST) + len(SECOND)


@torch.no_grad()
def reference(model, ids):
    """Return keys, values [L, H, T, D] and logits [T, V] of a plain forward pass."""
    out = model(ids[None], use_cache=True)
    layers = out.past_key_values.layers
    return torch.stack([x.keys[0] for x in layers]), torch.stack([x.values[0] for x in layers]), out.logits[0]


@pytest.fixture
def plain(family):
    return tiny.model(family)


@pytest.fixture
def engine(family):
    return Decoder(tiny.model(family), None, "tiny")


def chunk_kv(decoder, ids):
    """A chunk's KV behind the prefix, computed by transformers' own forward pass."""
    keys, values, _ = reference(decoder, torch.cat((PREFIX, ids)))
    return ChunkKV(keys[:, :, len(PREFIX) :], values[:, :, len(PREFIX) :], len(PREFIX))


def assembled(plain, engine, *chunks):
    keys, values, _ = reference(plain, PREFIX)
    buffer = engine.buffer(len(PROMPT) + 40)
    assemble(buffer, ChunkKV(keys, values, 0), [chunk_kv(plain, ids) for ids in chunks], engine.spec.inv_freq)
    return buffer


def test_full_prefill_equals_transformers(plain, engine):
    keys, values, logits = reference(plain, PROMPT)
    buffer = engine.buffer(len(PROMPT))
    found = engine.prefill(PROMPT, buffer, torch.arange(len(PROMPT)))
    assert_close(found, logits[-1], **REORDERED)
    assert_close(buffer.keys, keys, **REORDERED)
    assert_close(buffer.values, values, **REORDERED)


def test_recomputing_everything_equals_full_prefill_in_kv_and_logits(plain, engine):
    keys, values, logits = reference(plain, PROMPT)
    buffer = assembled(plain, engine, FIRST, SECOND)
    rows = torch.arange(len(PREFIX), len(PROMPT))
    found = engine.prefill(PROMPT[rows], buffer, rows)
    assert_close(found, logits[-1], **REORDERED)
    assert_close(buffer.keys[:, :, : len(PROMPT)], keys, **REORDERED)
    assert_close(buffer.values[:, :, : len(PROMPT)], values, **REORDERED)


def test_recomputing_nothing_is_direct_reuse_bit_for_bit(plain, engine):
    one, two = (assembled(plain, engine, FIRST, SECOND) for _ in range(2))
    asked = torch.arange(CONTEXT, len(PROMPT))
    first = engine.prefill(QUESTION, one, asked)
    assert_close(one.keys[:, :, :CONTEXT], two.keys[:, :, :CONTEXT], **EXACT)
    assert_close(engine.prefill(QUESTION, two, asked), first, **EXACT)


def test_chosen_rows_see_exactly_what_lies_at_or_before_them(plain, engine):
    """Recomputing any rows of an exact cache changes nothing: every row finds all it needs, and no more."""
    keys, values, logits = reference(plain, PROMPT)
    buffer = engine.buffer(len(PROMPT))
    buffer.keys[:], buffer.values[:] = keys, values
    chosen = torch.rand(len(PROMPT), generator=torch.Generator().manual_seed(2)) < 0.4
    chosen[-1] = True
    rows = chosen.nonzero()[:, 0]
    assert_close(engine.prefill(PROMPT[rows], buffer, rows), logits[-1], **REORDERED)
    assert_close(buffer.keys, keys, **REORDERED)


def test_later_slots_are_never_seen(plain, engine):
    _, _, logits = reference(plain, PROMPT[:60])
    buffer = engine.buffer(len(PROMPT))
    buffer.keys.fill_(1e4)
    buffer.values.fill_(1e4)
    engine.prefill(PROMPT[:20], buffer, torch.arange(20))
    rows = torch.arange(20, 60)
    assert_close(engine.prefill(PROMPT[rows], buffer, rows), logits[-1], **REORDERED)


def test_the_first_chunk_is_exact_at_every_layer(plain, engine):
    keys, values, _ = reference(plain, PROMPT)
    buffer, end = assembled(plain, engine, FIRST, SECOND), len(PREFIX) + len(FIRST)
    assert_close(buffer.keys[:, :, :end], keys[:, :, :end], **REORDERED)
    assert_close(buffer.values[:, :, :end], values[:, :, :end], **REORDERED)


def test_layer_zero_of_every_moved_chunk_is_exact_and_deeper_layers_are_not(plain, engine):
    keys, values, _ = reference(plain, PROMPT)
    buffer, start = assembled(plain, engine, FIRST, SECOND), len(PREFIX) + len(FIRST)
    moved = slice(start, CONTEXT)
    assert_close(buffer.keys[0, :, moved], keys[0, :, moved], **rotated(start, float(keys.abs().max())))
    assert_close(buffer.values[0, :, moved], values[0, :, moved], **REORDERED)
    assert (buffer.values[1:, :, moved] - values[1:, :, moved]).abs().max() > 1e-2


def test_cached_decoding_equals_decoding_without_a_cache(plain, engine):
    ids, expected = PROMPT, []
    for _ in range(24):
        expected.append(int(reference(plain, ids)[2][-1].argmax()))
        ids = torch.cat((ids, torch.tensor(expected[-1:])))
    buffer = engine.buffer(len(PROMPT) + 24)
    chooser = SamplingParams().sampler()
    first = chooser.sample(engine.prefill(PROMPT, buffer, torch.arange(len(PROMPT))))
    assert list(decode(engine, buffer, first, chooser, frozenset(), 24)) == expected


@pytest.mark.parametrize("capacity, slots, message", [(4, [3, 4], "slot 4 is past"), (4, [], "at least one row")])
def test_rows_outside_the_buffer_are_refused(capacity, slots, message):
    buffer = KVBuffer(1, 1, 8, capacity, torch.float32, torch.device("cpu"))
    with pytest.raises(ValueError, match=message):
        RowPass(buffer, torch.tensor(slots))
