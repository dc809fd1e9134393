"""Candidates scored together have the likelihoods that a model gives them one by one."""

import pytest
import torch

from engine.generation.rescoring import log_likelihoods, most_likely
from engine.model.attention import ParallelLayout
from engine.model.decoder import Decoder
from engine.types import ParallelAttention
from tests.support import tiny

PROMPT = torch.randint(3, 512, (23,), generator=torch.Generator().manual_seed(0))
CONTINUATIONS = [(5, 6, 7), (5,), (9, 8), (5, 6, 7, 400)]


def prefill(decoder):
    buffer = decoder.new_buffer(len(PROMPT) + 8)
    return buffer, decoder.forward_rows(PROMPT, buffer, torch.arange(len(PROMPT)))


def one_by_one(decoder, ids, parallel=None):
    buffer, logits = prefill(decoder)
    buffer.parallel = parallel
    total = 0.0
    for token in ids:
        total += float(logits.log_softmax(-1)[token])
        logits = decoder.forward_rows(torch.tensor([token]), buffer, torch.tensor([buffer.length]))
    return total


def test_likelihoods_equal_those_of_decoding(family):
    decoder = Decoder(tiny.model(family), None, "tiny")
    buffer, logits = prefill(decoder)
    before = buffer.keys.clone()
    scores = log_likelihoods(decoder, buffer, logits, CONTINUATIONS)
    assert scores == pytest.approx([one_by_one(decoder, ids) for ids in CONTINUATIONS], abs=1e-3)
    used = slice(0, buffer.length)
    assert buffer.length == len(PROMPT) and torch.equal(buffer.keys[:, :, used], before[:, :, used])


def test_single_tokens_need_no_pass():
    decoder = Decoder(tiny.model(), None, "tiny")
    buffer, logits = prefill(decoder)
    expected = logits.log_softmax(-1)[[5, 9]].tolist()
    assert log_likelihoods(decoder, buffer, logits, [(5,), (9,)]) == pytest.approx(expected)


def test_candidates_attend_to_parallel_chunks_as_decoding_does():
    decoder = Decoder(tiny.model(), None, "tiny")
    buffer, logits = prefill(decoder)
    buffer.parallel = layout = ParallelLayout(slice(4, 20), 8, ParallelAttention(temperature=0.5, scale=0.8))
    scores = log_likelihoods(decoder, buffer, logits, CONTINUATIONS)
    assert scores == pytest.approx([one_by_one(decoder, ids, layout) for ids in CONTINUATIONS], abs=1e-3)


def test_the_most_likely_answer_is_greedy_and_leaves_the_buffer_as_it_was(family):
    decoder = Decoder(tiny.model(family), None, "tiny")
    buffer, logits = prefill(decoder)
    expected, after = [], logits
    for _ in range(4):
        expected.append(int(after.argmax()))
        after = decoder.forward_rows(torch.tensor(expected[-1:]), buffer, torch.tensor([buffer.length]))
    buffer, logits = prefill(decoder)
    before = log_likelihoods(decoder, buffer, logits, CONTINUATIONS)
    assert most_likely(decoder, buffer, logits, frozenset(), 4) == expected
    assert buffer.length == len(PROMPT)
    assert log_likelihoods(decoder, buffer, logits, CONTINUATIONS) == before
