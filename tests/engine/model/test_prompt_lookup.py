"""Proposals come from the prompt and the answer so far, and decoding with them gives the same tokens in fewer steps."""

import pytest
import torch

from engine.model import sampling
from engine.model.decoder import Decoder
from engine.model.prompt_lookup import MAX_PROPOSED, PromptLookup
from engine.model.sampling import TokenSampler, decode
from tests.support import tiny


def test_what_followed_the_last_tokens_before_is_proposed_the_longer_match_first():
    lookup = PromptLookup([1, 2, 3, 4, 5, 9, 2, 3, 7])
    assert lookup.propose() == []
    lookup.append(2)
    lookup.append(3)
    assert lookup.propose() == [7, 2, 3]  # after the last "2 3"
    lookup.append(4)
    assert lookup.propose() == [5, 9, 2, 3, 7, 2]  # "2 3 4" occurred once
    assert len(lookup.propose()) == MAX_PROPOSED


def test_a_repeating_answer_proposes_its_own_continuation():
    lookup = PromptLookup([])
    for token in (5, 6, 5, 6):
        lookup.append(token)
    assert lookup.propose() == [5, 6]


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize(("stops", "length", "space"), [((), 60, 80), ((), 60, 7), ((), 5, 80), ((0,), 60, 80)])
def test_decoding_with_lookup_gives_the_same_tokens_in_fewer_steps(temperature, stops, length, space, monkeypatch):
    decoder = Decoder(tiny.model(), None, "tiny")
    prompt = torch.randint(3, 512, (40,), generator=torch.Generator().manual_seed(4))

    def run(lookup, stop_ids=frozenset()):
        buffer = decoder.new_buffer(len(prompt) + space)
        sampler = TokenSampler(temperature, seed=2)
        first = sampler.sample(decoder.forward_rows(prompt, buffer, torch.arange(len(prompt))))
        answer = list(decode(decoder, buffer, [first], sampler, stop_ids, length, lookup=lookup))
        assert buffer.length <= buffer.capacity
        return answer

    expected = run(None)
    stop_ids = frozenset(expected[-3 - stop] for stop in stops)
    expected = run(None, stop_ids)
    steps, extend = [], sampling.extend
    monkeypatch.setattr(sampling, "extend", lambda *arguments: steps.append(1) or extend(*arguments))
    assert run(PromptLookup([*prompt.tolist(), *expected]), stop_ids) == expected
    assert len(steps) <= max(2, len(expected) // 3)
    assert run(PromptLookup(prompt.tolist()), stop_ids) == expected


def test_a_step_without_a_proposal_that_fits_has_one_row():
    decoder = Decoder(tiny.model(), None, "tiny")
    prompt = [7, 8, 9, 7, 8]
    buffer = decoder.new_buffer(len(prompt) + 1)
    sampler = TokenSampler()
    first = sampler.sample(decoder.forward_rows(torch.tensor(prompt), buffer, torch.arange(len(prompt))))
    lookup = PromptLookup([*prompt, first, 1, 2])
    assert len(list(decode(decoder, buffer, [first], sampler, frozenset(), 9, lookup=lookup))) == 2
