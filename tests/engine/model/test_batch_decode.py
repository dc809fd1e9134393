"""Answers decoded as a batch equal answers decoded one by one."""

import torch

from engine.model.decoder import Decoder
from engine.model.sampling import TokenSampler, decode, decode_batch
from tests.support import tiny

PROMPTS = [torch.randint(3, 512, (n,), generator=torch.Generator().manual_seed(n)) for n in (5, 60, 23)]


def prefill(decoder, space):
    buffers = [decoder.new_buffer(len(ids) + space) for ids in PROMPTS]
    logits = [
        decoder.forward_rows(ids, buffer, torch.arange(len(ids))) for ids, buffer in zip(PROMPTS, buffers, strict=True)
    ]
    return buffers, [int(each.argmax()) for each in logits]


def batched(decoder, stop_ids, max_new_tokens, space):
    buffers, firsts = prefill(decoder, space)
    return decode_batch(decoder, buffers, firsts, [TokenSampler() for _ in firsts], stop_ids, max_new_tokens)


def one_by_one(decoder, stop_ids, max_new_tokens, space):
    buffers, firsts = prefill(decoder, space)
    pairs = zip(buffers, firsts, strict=True)
    return [list(decode(decoder, b, [first], TokenSampler(), stop_ids, max_new_tokens)) for b, first in pairs]


def test_batched_answers_equal_single_ones(family):
    decoder = Decoder(tiny.model(family), None, "tiny")
    assert batched(decoder, frozenset(), 20, 30) == one_by_one(decoder, frozenset(), 20, 30)


def test_each_answer_ends_at_a_stop_id_or_when_its_buffer_is_full():
    decoder = Decoder(tiny.model(), None, "tiny")
    free = one_by_one(decoder, frozenset(), 20, 30)
    stops = frozenset({free[0][4], free[1][9]})
    assert batched(decoder, stops, 20, 30) == one_by_one(decoder, stops, 20, 30)
    assert batched(decoder, frozenset(), 20, 3) == one_by_one(decoder, frozenset(), 20, 3)


def test_each_answer_has_its_own_sampler():
    decoder = Decoder(tiny.model(), None, "tiny")
    buffers, firsts = prefill(decoder, 30)
    samplers = [TokenSampler(1.5, seed=seed) for seed in range(len(buffers))]
    answers = decode_batch(decoder, buffers, firsts, samplers, frozenset(), 20)
    for seed, (buffer, first, answer) in enumerate(zip(*prefill(decoder, 30), answers, strict=True)):
        assert answer == list(decode(decoder, buffer, [first], TokenSampler(1.5, seed=seed), frozenset(), 20))
