"""Answers decoded side by side are the answers decoded one by one."""

import torch

from engine.model.decoder import Decoder
from engine.model.sampling import SamplingParams, decode, decode_together
from tests.support import tiny

PROMPTS = [torch.randint(3, 512, (n,), generator=torch.Generator().manual_seed(n)) for n in (5, 60, 23)]


def prefilled(decoder, room):
    buffers = [decoder.buffer(len(ids) + room) for ids in PROMPTS]
    logits = [
        decoder.prefill(ids, buffer, torch.arange(len(ids))) for ids, buffer in zip(PROMPTS, buffers, strict=True)
    ]
    return buffers, [int(each.argmax()) for each in logits]


def together(decoder, stop_ids, most, room):
    buffers, firsts = prefilled(decoder, room)
    return decode_together(decoder, buffers, firsts, [SamplingParams().sampler() for _ in firsts], stop_ids, most)


def one_by_one(decoder, stop_ids, most, room):
    buffers, firsts = prefilled(decoder, room)
    pairs = zip(buffers, firsts, strict=True)
    return [list(decode(decoder, b, first, SamplingParams().sampler(), stop_ids, most)) for b, first in pairs]


def test_side_by_side_or_one_by_one_the_answers_are_equal(family):
    decoder = Decoder(tiny.model(family), None, "tiny")
    assert together(decoder, frozenset(), 20, 30) == one_by_one(decoder, frozenset(), 20, 30)


def test_each_answer_ends_at_its_own_stop_or_where_its_buffer_is_full():
    decoder = Decoder(tiny.model(), None, "tiny")
    free = one_by_one(decoder, frozenset(), 20, 30)
    stops = frozenset({free[0][4], free[1][9]})
    assert together(decoder, stops, 20, 30) == one_by_one(decoder, stops, 20, 30)
    assert together(decoder, frozenset(), 20, 3) == one_by_one(decoder, frozenset(), 20, 3)


def test_each_answer_has_a_chooser_of_its_own():
    decoder = Decoder(tiny.model(), None, "tiny")
    buffers, firsts = prefilled(decoder, 30)
    choosers = [SamplingParams(1.5, seed=seed).sampler() for seed in range(len(buffers))]
    answers = decode_together(decoder, buffers, firsts, choosers, frozenset(), 20)
    for seed, (buffer, first, answer) in enumerate(zip(*prefilled(decoder, 30), answers, strict=True)):
        assert answer == list(decode(decoder, buffer, first, SamplingParams(1.5, seed=seed).sampler(), frozenset(), 20))
