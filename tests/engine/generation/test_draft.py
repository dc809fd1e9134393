"""A verified draft gives the answer that is decoded without one; what is not verified is never the answer's text."""

import itertools
from copy import copy
from dataclasses import replace
from threading import Event
from unittest.mock import Mock

import pytest
import torch

from engine.cache.cost_model import CostModel
from engine.generation.draft import RecordingSampler, verify
from engine.generation.grounding import GroundingModel
from engine.model.decoder import Decoder
from engine.model.sampling import TokenSampler, decode
from engine.request import Request
from engine.scheduler.speculation import Speculator
from engine.strategies import Full
from tests.support import tiny
from tests.support.doubles import last, make_engine

# Greedy decoding makes the tiny model repeat itself, which leaves no text.
ASK = Request("What is the maintenance code?", "full", passages=6, max_new_tokens=24, temperature=1.0, draft=True)
PROMPT = torch.randint(3, 512, (40,), generator=torch.Generator().manual_seed(1))


class Mistaken(RecordingSampler):
    """Drafts another token than the sampler's as the fifth."""

    def sample(self, logits):
        token = super().sample(logits)
        if len(self.tokens) == 5:
            self.tokens[-1] = token = 3 + (token + 7) % 250
        return token


def prefilled(decoder, space=30):
    buffer = decoder.new_buffer(len(PROMPT) + space)
    return buffer, decoder.forward_rows(PROMPT, buffer, torch.arange(len(PROMPT)))


def verified(decoder, draft, sampler, stop_ids=frozenset(), length=20):
    """The answer from a draft, and how much of the draft was accepted."""
    buffer, logits = prefilled(decoder)
    sampled = verify(decoder, buffer, logits, draft, sampler)
    accepted = len(sampled) - 1
    assert buffer.length == len(PROMPT) + accepted and sampled[:-1] == draft[:accepted]
    return list(decode(decoder, buffer, sampled, sampler, stop_ids, length)), accepted


def plain(decoder, sampler, stop_ids=frozenset(), length=20):
    """The answer without a draft, and all tokens that were sampled for it."""
    recording = RecordingSampler(sampler)
    buffer, logits = prefilled(decoder)
    answer = list(decode(decoder, buffer, [recording.sample(logits)], recording, stop_ids, length))
    return answer, recording.tokens


@pytest.mark.parametrize("temperature", [0.0, 1.2])
@pytest.mark.parametrize("num_right", [0, 1, 7, 20])
def test_a_draft_is_accepted_up_to_its_first_wrong_token(family, temperature, num_right):
    decoder = Decoder(tiny.model(family), None, "tiny")
    expected, sampled = plain(decoder, TokenSampler(temperature, seed=3))
    draft = [*sampled[:num_right], *((token + 1) % 512 for token in sampled[num_right:])]
    answer, accepted = verified(decoder, draft, TokenSampler(temperature, seed=3))
    assert answer == expected
    assert accepted == min(num_right, len(draft) - 1)


@pytest.mark.parametrize("draft_length", [0, 1, 5])
def test_decoding_continues_after_a_draft_that_was_too_short(draft_length):
    decoder = Decoder(tiny.model(), None, "tiny")
    expected, sampled = plain(decoder, TokenSampler())
    assert verified(decoder, sampled[:draft_length], TokenSampler()) == (expected, max(0, draft_length - 1))


def test_a_stop_token_of_the_draft_is_verified_too():
    decoder = Decoder(tiny.model(), None, "tiny")
    free, _ = plain(decoder, TokenSampler())
    stops = frozenset({free[5]})
    expected, sampled = plain(decoder, TokenSampler(), stops)
    assert sampled[-1] in stops and expected == sampled[:-1]
    assert verified(decoder, sampled, TokenSampler(), stops) == (expected, len(expected))
    too_early = [*free[:3], free[5]]
    assert verified(decoder, too_early, TokenSampler(), stops) == (expected, 3)


@pytest.mark.parametrize(
    "method", ["full", "cacheclip", *(pytest.param(name, marks=pytest.mark.slow) for name in ("prefix", "cacheblend"))]
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("is_right", [True, False])
def test_the_verified_answer_equals_the_one_without_a_draft(method, temperature, is_right, monkeypatch):
    if not is_right:
        monkeypatch.setattr("engine.engine.RecordingSampler", Mistaken)
    statuses = set()
    for seed, question in enumerate(["Who sails?", "What is the maintenance code?", "What costs 12 pounds?"]):
        engine = make_engine("ferry", "tern", "fares")
        request = replace(ASK, question=question, method=method, temperature=temperature, seed=seed)
        direct = last(engine.ask(replace(request, method="direct")))
        engine.cache.insert_path = lambda *arguments: None  # both requests find the same cache
        expected = last(engine.ask(replace(request, draft=False)))
        *_, answer = shown = [copy(each) for each in engine.ask(request)]
        assert (answer.text, answer.new_tokens, answer.truncated) == (
            expected.text,
            expected.new_tokens,
            expected.truncated,
        )
        assert answer.sources == expected.sources
        assert answer.draft.text == direct.text or not is_right
        assert all(later.text.startswith(earlier.text) for earlier, later in itertools.pairwise(shown))
        assert next(each for each in shown if each.draft).text == ""
        assert answer.draft.trace.ttft_ms < answer.trace.ttft_ms
        assert {"draft", "verify"} <= {stage.name for stage in answer.trace.stages}
        assert answer.draft_status == ("unchanged" if answer.draft.text == expected.text else "changed")
        assert answer.as_dict()["draft"]["status"] == answer.draft_status
        statuses.add(answer.draft_status)
    assert is_right or "changed" in statuses


@pytest.mark.parametrize(
    "change", [{"method": "direct"}, {"method": "ape"}, {"method": "naive"}, {"draft": False}], ids=str
)
def test_no_draft_where_it_is_not_wanted_or_would_not_be_earlier(change):
    engine = make_engine("ferry", "tern", "fares")
    last(engine.ask(replace(ASK, method="direct")))
    assert last(engine.ask(replace(ASK, **change))).draft is None


def test_no_draft_before_every_passage_is_cached():
    engine = make_engine("ferry", "tern", "fares")
    engine.passages.warm(engine.finder.hits[0].chunk.text)
    assert last(engine.ask(ASK)).draft is None


@pytest.mark.parametrize("ms_per_token, expects_draft", [(1.0, False), (20.0, True)])
def test_no_draft_if_recomputing_takes_less_than_a_second(ms_per_token, expects_draft):
    engine = make_engine("ferry", "tern", "fares")
    last(engine.ask(replace(ASK, method="direct")))
    row = tuple(ms_per_token * tokens for tokens in (0, 100, 1000))
    engine.cache.costs = CostModel((0, 1000), (0, 100, 1000), (row, row))
    assert (last(engine.ask(ASK)).draft is not None) == expects_draft


def test_no_draft_if_an_exact_path_leaves_nothing_to_recompute():
    engine = make_engine("ferry", "tern", "fares")
    row = (0.0, 2000.0)
    engine.cache.costs = CostModel((0, 1000), (0, 100), (row, row))
    request = replace(ASK, method="prefix")
    for name in ("ferry", "tern", "fares"):
        engine.passages.warm(next(hit.chunk.text for hit in engine.finder.hits if hit.chunk.document_id == name))
    assert last(engine.ask(request)).draft is not None
    engine.min_draft_wait_ms = 20.0 * (last(engine.ask(request)).question_tokens + 1)
    assert last(engine.ask(request)).draft is None


@pytest.mark.parametrize("is_complete", [False, True])
def test_stopped_before_verification_the_draft_is_kept_and_is_not_the_answer(is_complete):
    engine, cancel = make_engine("ferry", "tern", "fares"), Event()
    whole = last(engine.ask(replace(ASK, method="direct")))
    prefill = engine.prefill

    def stop_before_full_prefill(prepared, strategy, *arguments):
        if isinstance(strategy, Full):
            cancel.set()
        return prefill(prepared, strategy, *arguments)

    engine.prefill = stop_before_full_prefill
    for answer in engine.ask(ASK, cancel):
        if not is_complete and answer.draft and answer.draft.new_tokens == 8:
            cancel.set()
    assert (answer.state, answer.text, answer.draft_status) == ("stopped", "", "unverified")
    assert answer.draft.text and whole.text.startswith(answer.draft.text.rstrip())
    assert (answer.draft.text == whole.text) == is_complete
    engine.prefill = prefill
    assert last(engine.ask(ASK)).state == "done"


def test_stopped_after_verification_the_draft_counts_as_verified():
    engine, cancel = make_engine("ferry", "tern", "fares"), Event()
    last(engine.ask(replace(ASK, method="direct")))
    engine.cache.insert_path = lambda *arguments: None
    for answer in engine.ask(replace(ASK, max_new_tokens=200), cancel):
        if answer.state == "writing":
            cancel.set()
    assert (answer.state, answer.draft_status) == ("stopped", "unchanged") and answer.trace.ttft_ms


def test_the_time_of_a_draft_is_not_predicted_for_another_ratio():
    engine = make_engine("ferry", "tern", "fares")
    engine.cache.costs = CostModel((0, 1000), (0, 100), ((0.0, 1e5), (0.0, 1e5)))
    engine.cache.insert_path = lambda *arguments: None
    request = replace(ASK, method="cacheclip", recompute_ratio=0.4)
    last(engine.ask(replace(request, draft=False)))
    answer = last(engine.ask(request))
    lengths = {stage.name: stage.length_ms for stage in answer.trace.stages}
    spared = lengths["draft"] + lengths["verify"]
    assert answer.preview(0.4).ttft_ms <= answer.trace.ttft_ms - spared


def test_a_speculative_prefill_gives_way_to_the_draft():
    engine = make_engine("ferry", "tern", "fares")
    engine.cache.insert_path = lambda *arguments: None
    direct = last(engine.ask(replace(ASK, method="direct")))
    expected = last(engine.ask(replace(ASK, draft=False)))
    engine.speculator = Speculator(engine.scheduler, engine.speculator.is_same_prompt, -1.0)
    began, work = Event(), engine.prefill

    def prefill(prepared, strategy, trace, cancel=None, context=None):
        if not began.is_set():  # the speculation: it runs until it is cancelled
            began.set()
            assert cancel.wait(60)
        return work(prepared, strategy, trace, cancel, context)

    engine.prefill = prefill
    answer = last(engine.ask(ASK))
    assert (answer.draft.text, answer.text) == (direct.text, expected.text)
    assert [stage.name for stage in answer.trace.stages].count("speculation cancelled") == 1
    assert last(engine.ask(replace(ASK, draft=False))).text == expected.text  # the model is free again


@pytest.mark.parametrize("reads_kv", [False, True])
def test_quotes_are_drafted_only_if_they_depend_on_the_kv(monkeypatch, reads_kv):
    def quote(answer, evidence, log_likelihoods, generate):
        assert log_likelihoods, "the request is not greedy"
        answer.text = "At nine." if not reads_kv else f"At {log_likelihoods(['nine'])[0]:.9f}."
        return True

    monkeypatch.setattr("engine.generation.stream.fill_quoted_answer", quote)
    monkeypatch.setattr(GroundingModel, "evidence", lambda *arguments: Mock())
    engine = make_engine("ferry", "tern", "fares")
    engine.grounding = GroundingModel()
    engine.cache.insert_path = lambda *arguments: None
    request = replace(ASK, temperature=0.0)
    direct = last(engine.ask(replace(request, method="direct")))
    expected = last(engine.ask(replace(request, draft=False)))
    answer = last(engine.ask(request))
    assert answer.text == expected.text
    assert (answer.draft is not None) == reads_kv
    if reads_kv:
        assert answer.draft.text == direct.text != answer.text
        assert answer.draft_status == "changed"


def test_the_same_seed_mostly_draws_the_same_token_from_similar_logits():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(400, generator=generator)
    similar = logits + 0.05 * torch.randn(400, generator=generator)
    assert not torch.equal(logits.argsort(), similar.argsort())
    draws = [[TokenSampler(1.0, 0.9, seed).sample(each) for each in (logits, similar)] for seed in range(200)]
    distance = (logits.softmax(-1) - similar.softmax(-1)).abs().sum().item() / 2
    assert sum(one != other for one, other in draws) / len(draws) < 4 * distance + 0.05 < 0.2
