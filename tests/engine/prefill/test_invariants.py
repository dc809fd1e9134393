"""Invariants 2 to 4, against transformers' own forward pass with its own cache, mask and attention."""

import pytest
import torch
from torch.testing import assert_close

from engine.kv.chunk_cache import assemble
from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer, RowPass
from engine.model.sampling import TokenSampler, decode
from engine.types import ChunkKV
from tests.support import tiny
from tests.support.tolerance import EXACT, REORDERED, rotation_tolerance

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
def model(family):
    return tiny.model(family)


@pytest.fixture
def decoder(family):
    return Decoder(tiny.model(family), None, "tiny")


def chunk_kv(decoder, ids):
    """A chunk's KV after the prefix, computed by transformers' own forward pass."""
    keys, values, _ = reference(decoder, torch.cat((PREFIX, ids)))
    return ChunkKV(keys[:, :, len(PREFIX) :], values[:, :, len(PREFIX) :], len(PREFIX))


def assembled(model, decoder, *chunks):
    keys, values, _ = reference(model, PREFIX)
    buffer = decoder.new_buffer(len(PROMPT) + 40)
    assemble(buffer, ChunkKV(keys, values, 0), [chunk_kv(model, ids) for ids in chunks], decoder.spec.inv_freq)
    return buffer


def test_full_prefill_equals_transformers(model, decoder):
    keys, values, logits = reference(model, PROMPT)
    buffer = decoder.new_buffer(len(PROMPT))
    last_logits = decoder.forward_rows(PROMPT, buffer, torch.arange(len(PROMPT)))
    assert_close(last_logits, logits[-1], **REORDERED)
    assert_close(buffer.keys, keys, **REORDERED)
    assert_close(buffer.values, values, **REORDERED)


def test_recomputing_everything_equals_full_prefill_in_kv_and_logits(model, decoder):
    keys, values, logits = reference(model, PROMPT)
    buffer = assembled(model, decoder, FIRST, SECOND)
    rows = torch.arange(len(PREFIX), len(PROMPT))
    last_logits = decoder.forward_rows(PROMPT[rows], buffer, rows)
    assert_close(last_logits, logits[-1], **REORDERED)
    assert_close(buffer.keys[:, :, : len(PROMPT)], keys, **REORDERED)
    assert_close(buffer.values[:, :, : len(PROMPT)], values, **REORDERED)


def test_recomputing_nothing_is_direct_reuse_bit_for_bit(model, decoder):
    one, two = (assembled(model, decoder, FIRST, SECOND) for _ in range(2))
    query_rows = torch.arange(CONTEXT, len(PROMPT))
    first = decoder.forward_rows(QUESTION, one, query_rows)
    assert_close(one.keys[:, :, :CONTEXT], two.keys[:, :, :CONTEXT], **EXACT)
    assert_close(decoder.forward_rows(QUESTION, two, query_rows), first, **EXACT)


def test_selected_rows_attend_to_exactly_the_slots_at_or_before_their_own(model, decoder):
    """Recomputing any rows of an exact cache changes nothing."""
    keys, values, logits = reference(model, PROMPT)
    buffer = decoder.new_buffer(len(PROMPT))
    buffer.keys[:] = keys
    buffer.values[:] = values
    is_selected = torch.rand(len(PROMPT), generator=torch.Generator().manual_seed(2)) < 0.4
    is_selected[-1] = True
    rows = is_selected.nonzero()[:, 0]
    assert_close(decoder.forward_rows(PROMPT[rows], buffer, rows), logits[-1], **REORDERED)
    assert_close(buffer.keys, keys, **REORDERED)


def test_later_slots_are_never_attended_to(model, decoder):
    _, _, logits = reference(model, PROMPT[:60])
    buffer = decoder.new_buffer(len(PROMPT))
    buffer.keys.fill_(1e4)
    buffer.values.fill_(1e4)
    decoder.forward_rows(PROMPT[:20], buffer, torch.arange(20))
    rows = torch.arange(20, 60)
    assert_close(decoder.forward_rows(PROMPT[rows], buffer, rows), logits[-1], **REORDERED)


def test_the_first_chunk_is_exact_at_every_layer(model, decoder):
    keys, values, _ = reference(model, PROMPT)
    buffer, end = assembled(model, decoder, FIRST, SECOND), len(PREFIX) + len(FIRST)
    assert_close(buffer.keys[:, :, :end], keys[:, :, :end], **REORDERED)
    assert_close(buffer.values[:, :, :end], values[:, :, :end], **REORDERED)


def test_layer_zero_of_every_rotated_chunk_is_exact_and_deeper_layers_are_not(model, decoder):
    keys, values, _ = reference(model, PROMPT)
    buffer, start = assembled(model, decoder, FIRST, SECOND), len(PREFIX) + len(FIRST)
    slots = slice(start, CONTEXT)
    assert_close(buffer.keys[0, :, slots], keys[0, :, slots], **rotation_tolerance(start, float(keys.abs().max())))
    assert_close(buffer.values[0, :, slots], values[0, :, slots], **REORDERED)
    assert (buffer.values[1:, :, slots] - values[1:, :, slots]).abs().max() > 1e-2


def test_cached_decoding_equals_decoding_without_a_cache(model, decoder):
    ids, expected = PROMPT, []
    for _ in range(24):
        expected.append(int(reference(model, ids)[2][-1].argmax()))
        ids = torch.cat((ids, torch.tensor(expected[-1:])))
    buffer = decoder.new_buffer(len(PROMPT) + 24)
    sampler = TokenSampler()
    first = sampler.sample(decoder.forward_rows(PROMPT, buffer, torch.arange(len(PROMPT))))
    assert list(decode(decoder, buffer, [first], sampler, frozenset(), 24)) == expected


@pytest.mark.parametrize("capacity, slots, message", [(4, [3, 4], "slot 4 is past"), (4, [], "at least one row")])
def test_rows_outside_the_buffer_are_rejected(capacity, slots, message):
    buffer = KVBuffer(torch.empty(1, 1, capacity, 8), torch.empty(1, 1, capacity, 8))
    with pytest.raises(ValueError, match=message):
        RowPass(buffer, torch.tensor(slots))
