"""KL and Jaccard against values worked out by hand and scipy-free sums; and what an inspection holds."""

import json
import math
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
import torch

from engine.analysis.attention_profile import binned
from engine.analysis.divergence import jaccard, kl, renormalised
from engine.analysis.inspection_runner import attention_profile
from engine.errors import BadRequest, Cancelled, NoPassageFound
from engine.strategies import EPIC, CacheBlend, CacheClip, OracleWindows
from engine.trace import Trace
from engine.types import ScoreMode
from tests.engine.prefill.test_context import NAMES, prepared
from tests.engine.test_engine import ASK
from tests.support.doubles import engine, inspected


def test_kl_is_the_sum_that_its_definition_states():
    found = float(kl(torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.2, 0.2, 0.6])))
    assert found == pytest.approx(0.5 * math.log(2.5) + 0.25 * math.log(1.25) + 0.25 * math.log(0.25 / 0.6), abs=1e-6)


def test_kl_ignores_what_went_to_the_prefix():
    one, other = torch.rand(2, 50, generator=torch.Generator().manual_seed(0))
    assert float(kl(one * 0.01, other * 0.7)) == pytest.approx(float(kl(one, other)), rel=1e-4)
    assert float(renormalised(one).sum()) == pytest.approx(1.0)
    assert float(kl(one, one)) == pytest.approx(0.0, abs=1e-6)


def test_jaccard_counts_both_over_either():
    assert jaccard(torch.tensor([1, 2, 3]), torch.tensor([2, 3, 4, 5])) == 2 / 5
    assert jaccard(torch.tensor([]), torch.tensor([])) == 1.0
    assert jaccard(torch.tensor([]), torch.tensor([1])) == 0.0


@pytest.mark.parametrize("tokens, bins", [(1000, 256), (256, 256), (7, 256), (1000, 3)])
def test_bins_keep_the_sum_and_are_at_most_as_many_as_asked(tokens, bins):
    values = np.random.default_rng(0).random((2, tokens))
    found = binned(values, bins)
    assert found.shape == (2, min(tokens, bins))
    assert found.sum(axis=1) == pytest.approx(values.sum(axis=1))


def test_an_inspection_holds_each_layer_and_compares_every_plan_with_the_oracles():
    made = engine()
    evidence = made.prompt_context(prepared(made), Trace())
    methods = {
        "cacheclip": CacheClip(0.3),
        "oracle": OracleWindows(0.3),
        "epic": EPIC(4),
        "cacheblend": CacheBlend(0.3),
    }
    found = attention_profile(evidence, 0.3, methods)
    assert found.kl_layers[-1] == pytest.approx(0.0, abs=1e-6) and found.jaccard_layers[-1] == 1.0
    assert found.kl_layers.shape == found.jaccard_layers.shape == (3,)
    assert found.primary.sum(axis=1) == pytest.approx(np.ones(3))
    assert found.overlap["oracle"] == 1.0 and 0 <= found.overlap["cacheclip"] <= 1
    assert set(found.overlap) == {"cacheclip", "oracle", "epic"}  # CacheBlend decides on its way
    assert len(found.as_dict(bins=16)["primary"][0]) == 16


def test_sinks_are_left_out_of_kl_and_jaccard_and_nothing_else(monkeypatch):
    made = engine()
    evidence = made.prompt_context(prepared(made), Trace())
    primary, scores = evidence.reference.attention.clone(), evidence.scores(ScoreMode.PER_CHUNK)
    planted = torch.zeros(primary.shape[1], dtype=torch.bool)
    planted[[3, 40]] = True
    primary[:, planted] = 9.0
    monkeypatch.setitem(vars(evidence), "reference", replace(evidence.reference, attention=primary))
    found = attention_profile(evidence, 0.3)
    assert found.sinks.tolist() == planted.tolist()
    ours, theirs = (each[~planted].double() + 1e-9 for each in (primary[-1], scores))
    ours, theirs = ours / ours.sum(), theirs / theirs.sum()
    assert found.kl_auxiliary == pytest.approx(float((ours * (ours / theirs).log()).sum()), rel=1e-4)
    best = [set(each.argsort(descending=True)[: int(0.3 * len(ours))].tolist()) for each in (ours, theirs)]
    assert found.jaccard_auxiliary == len(best[0] & best[1]) / len(best[0] | best[1])
    assert len(found.auxiliary) == found.primary.shape[1] == len(planted)  # a page draws them all


def test_an_engine_inspects_what_a_question_finds():
    found = inspected(engine(*NAMES), replace(ASK, recompute_ratio=0.25))
    assert found.ratio == 0.25 and sum(found.passages) == len(found.auxiliary) == found.primary.shape[1]
    assert {"cacheclip", "cacheclip-trained", "cacheclip-joint", "prophetkv", "random"} <= found.overlap.keys()
    json.dumps(found.as_dict())


def test_an_inspection_without_passages_or_of_a_bad_request_says_what_to_do():
    with pytest.raises(NoPassageFound, match="Add documents"):
        inspected(engine(), ASK)
    with pytest.raises(BadRequest, match="ratio"):
        inspected(engine(*NAMES), replace(ASK, recompute_ratio=2.0))


def test_an_inspection_ends_soon_after_it_is_cancelled():
    stop = Event()
    stop.set()
    with pytest.raises(Cancelled):
        inspected(engine(*NAMES), ASK, stop)
