"""Answers decoded side by side are the answers decoded one by one."""

import torch

from engine.model.decoder import Decoder
from engine.model.generate import Sampling, decode, decode_together
from tests import tiny

PROMPTS = [torch.randint(3, 512, (n,), generator=torch.Generator().manual_seed(n)) for n in (5, 60, 23)]


def prefilled(decoder, room):
    buffers = [decoder.buffer(len(ids) + room) for ids in PROMPTS]
    logits = [
        decoder.prefill(ids, buffer, torch.arange(len(ids))) for ids, buffer in zip(PROMPTS, buffers, strict=True)
    ]
    return buffers, [int(each.argmax()) for each in logits]


def one_by_one(decoder, stop_ids, most, room):
    buffers, firsts = prefilled(decoder, room)
    pairs = zip(buffers, firsts, strict=True)
    return [list(decode(decoder, b, first, Sampling().chooser(), stop_ids, most)) for b, first in pairs]


def test_side_by_side_or_one_by_one_the_answers_are_equal(family):
    decoder = Decoder(tiny.model(family), None, "tiny")
    assert decode_together(decoder, *prefilled(decoder, 30), frozenset(), 20) == one_by_one(
        decoder, frozenset(), 20, 30
    )


def test_each_answer_ends_at_its_own_stop_or_where_its_buffer_is_full():
    decoder = Decoder(tiny.model(), None, "tiny")
    free = one_by_one(decoder, frozenset(), 20, 30)
    stops = frozenset({free[0][4], free[1][9]})
    assert decode_together(decoder, *prefilled(decoder, 30), stops, 20) == one_by_one(decoder, stops, 20, 30)
    assert decode_together(decoder, *prefilled(decoder, 3), frozenset(), 20) == one_by_one(decoder, frozenset(), 20, 3)
