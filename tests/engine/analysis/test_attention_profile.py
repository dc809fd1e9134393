"""KL and Jaccard against values computed by hand, and attention profiles of tiny models."""

import json
import math
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
import torch

from engine.analysis.agreement import jaccard, kl_divergence, renormalize
from engine.analysis.inspection import sum_into_bins
from engine.analysis.inspection_runner import attention_profile
from engine.errors import BadRequest, Cancelled, NoPassageFound
from engine.strategies import EPIC, CacheBlend, CacheClip, OracleWindows
from engine.trace import Trace
from engine.types import ScoreMode
from tests.engine.prefill.test_context import NAMES, prepare
from tests.engine.test_engine import ASK
from tests.support.doubles import make_engine, run_inspection


def test_kl_is_the_sum_in_its_definition():
    kl = float(kl_divergence(torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.2, 0.2, 0.6])))
    assert kl == pytest.approx(0.5 * math.log(2.5) + 0.25 * math.log(1.25) + 0.25 * math.log(0.25 / 0.6), abs=1e-6)


def test_kl_ignores_attention_to_the_prefix():
    one, other = torch.rand(2, 50, generator=torch.Generator().manual_seed(0))
    assert float(kl_divergence(one * 0.01, other * 0.7)) == pytest.approx(float(kl_divergence(one, other)), rel=1e-4)
    assert float(renormalize(one).sum()) == pytest.approx(1.0)
    assert float(kl_divergence(one, one)) == pytest.approx(0.0, abs=1e-6)


def test_jaccard_is_intersection_over_union():
    assert jaccard(torch.tensor([1, 2, 3]), torch.tensor([2, 3, 4, 5])) == 2 / 5
    assert jaccard(torch.tensor([]), torch.tensor([])) == 1.0
    assert jaccard(torch.tensor([]), torch.tensor([1])) == 0.0


@pytest.mark.parametrize("tokens, bins", [(1000, 256), (256, 256), (7, 256), (1000, 3)])
def test_bins_keep_the_sum_and_respect_the_limit(tokens, bins):
    values = np.random.default_rng(0).random((2, tokens))
    binned = sum_into_bins(values, bins)
    assert binned.shape == (2, min(tokens, bins))
    assert binned.sum(axis=1) == pytest.approx(values.sum(axis=1))


def test_a_profile_covers_each_layer_and_compares_every_plan_with_the_oracles():
    engine = make_engine()
    context = engine.prompt_context(prepare(engine), Trace())
    methods = {
        "cacheclip": CacheClip(0.3),
        "oracle": OracleWindows(0.3),
        "epic": EPIC(4),
        "cacheblend": CacheBlend(0.3),
    }
    profile = attention_profile(context, 0.3, methods)
    assert profile.kl_layers[-1] == pytest.approx(0.0, abs=1e-6) and profile.jaccard_layers[-1] == 1.0
    assert profile.kl_layers.shape == profile.jaccard_layers.shape == (3,)
    assert profile.primary.sum(axis=1) == pytest.approx(np.ones(3))
    assert profile.oracle_overlap["oracle"] == 1.0 and 0 <= profile.oracle_overlap["cacheclip"] <= 1
    assert set(profile.oracle_overlap) == {"cacheclip", "oracle", "epic"}  # CacheBlend selects during the forward pass
    assert len(profile.as_dict()["primary"][0]) == sum(profile.passage_lengths)


def test_sinks_are_excluded_from_kl_and_jaccard_only(monkeypatch):
    engine = make_engine()
    context = engine.prompt_context(prepare(engine), Trace())
    primary, scores = context.reference.attention.clone(), context.scores(ScoreMode.PER_CHUNK)
    planted = torch.zeros(primary.shape[1], dtype=torch.bool)
    planted[[3, 40]] = True
    primary[:, planted] = 9.0
    monkeypatch.setitem(vars(context), "reference", replace(context.reference, attention=primary))
    profile = attention_profile(context, 0.3)
    assert profile.sinks.tolist() == planted.tolist()
    ours, theirs = (each[~planted].double() + 1e-9 for each in (primary[-1], scores))
    ours, theirs = ours / ours.sum(), theirs / theirs.sum()
    assert profile.kl_auxiliary == pytest.approx(float((ours * (ours / theirs).log()).sum()), rel=1e-4)
    best = [set(each.argsort(descending=True)[: int(0.3 * len(ours))].tolist()) for each in (ours, theirs)]
    assert profile.jaccard_auxiliary == len(best[0] & best[1]) / len(best[0] | best[1])
    assert len(profile.auxiliary) == profile.primary.shape[1] == len(planted)  # the UI draws all of them


def test_an_engine_inspects_the_retrieved_passages():
    inspection = run_inspection(make_engine(*NAMES), replace(ASK, recompute_ratio=0.25))
    assert (
        inspection.ratio == 0.25
        and sum(inspection.passage_lengths) == len(inspection.auxiliary) == inspection.primary.shape[1]
    )
    assert {
        "cacheclip",
        "cacheclip-trained",
        "cacheclip-joint",
        "prophetkv",
        "infoflow",
        "qcfuse",
        "random",
    } <= inspection.oracle_overlap.keys()
    json.dumps(inspection.as_dict())


def test_an_inspection_without_passages_or_of_a_bad_request_is_refused():
    with pytest.raises(NoPassageFound, match="Add documents"):
        run_inspection(make_engine(), ASK)
    with pytest.raises(BadRequest, match="ratio"):
        run_inspection(make_engine(*NAMES), replace(ASK, recompute_ratio=2.0))


def test_an_inspection_ends_soon_after_it_is_cancelled():
    cancel = Event()
    cancel.set()
    with pytest.raises(Cancelled):
        run_inspection(make_engine(*NAMES), ASK, cancel)
