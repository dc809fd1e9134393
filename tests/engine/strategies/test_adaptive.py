"""CacheClip adaptive: the ratio follows from the model's calibration, a time limit lowers it."""

import pytest
import torch

from engine.fidelity import RATIOS, FidelityCurve, FidelityPoint
from engine.strategies import CacheClipAdaptive, CacheClipTrained
from engine.types import SelectionContext

SPANS = tuple(range(start, start + 25) for start in range(5, 205, 25))  # as many as in the calibration
SCORES = torch.rand(200, generator=torch.Generator().manual_seed(0))


def curve(*kls):
    points = (FidelityPoint(ratio, kl, 1.0, 10.0, 5.0) for ratio, kl in zip(RATIOS, kls, strict=True))
    return FidelityCurve("cacheclip-trained", tuple(points), 50.0, 24)


def context(fidelity=None, **values):
    return SelectionContext(SPANS, learned_scores=lambda: SCORES, fidelity=fidelity, **values)


@pytest.mark.parametrize(("target", "ratio"), [("fast", 0.05), ("balanced", 0.2), ("faithful", 0.4)])
def test_the_plan_is_that_of_cacheclip_trained_at_the_least_ratio_for_the_target(target, ratio):
    calibrated = context(curve(0.5, 0.3, 0.2, 0.1, 0.03))
    plan = CacheClipAdaptive(target=target).plan(calibrated)
    assert torch.equal(plan.rows, CacheClipTrained(ratio=ratio).plan(calibrated).rows)
    assert f"{100 * ratio:g} %" in plan.reason and target in plan.reason


def test_more_passages_need_a_higher_ratio():
    calibrated = curve(0.09, 0.07, 0.06, 0.02, 0.01)
    few, many = (
        SelectionContext(spans, learned_scores=lambda: SCORES, fidelity=calibrated)
        for spans in (SPANS, tuple(range(start, start + 5) for start in range(5, 205, 5)))
    )
    assert len(CacheClipAdaptive().plan(few).rows) == 0
    assert "19 %" in CacheClipAdaptive().plan(many).reason


def test_where_direct_reuse_is_faithful_nothing_is_scored():
    calibrated = SelectionContext(SPANS, fidelity=curve(0.02, 0.02, 0.01, 0.01, 0.01))  # scores would raise
    assert len(CacheClipAdaptive(target="faithful").plan(calibrated).rows) == 0


def test_where_no_ratio_is_faithful_every_token_is_recomputed_and_the_reason_says_so():
    plan = CacheClipAdaptive().plan(context(curve(0.9, 0.9, 0.9, 0.9, 0.9)))
    assert len(plan.rows) == 200
    assert "does not reach" in plan.reason


def test_without_a_calibration_the_usual_ratio_is_used_and_the_reason_says_so():
    plan = CacheClipAdaptive().plan(context())
    assert torch.equal(plan.rows, CacheClipTrained(ratio=0.2).plan(context()).rows)
    assert "not calibrated" in plan.reason


@pytest.mark.parametrize(("limit_s", "ratio"), [(0.4, 0.1), (0.75, 0.2), (5.0, 0.2), (0.2, 0.0)])
def test_a_time_limit_lowers_the_ratio_to_what_the_measured_cost_allows(limit_s, ratio):
    """200 ms have passed, and each recomputed token takes 10 ms: 0.4 s leave time for 20 of 200 tokens."""
    timed = context(
        curve(0.9, 0.8, 0.7, 0.05, 0.01), recompute_ms=lambda tokens: 10.0 * tokens, elapsed_ms=lambda: 199.0
    )
    plan = CacheClipAdaptive(max_seconds=limit_s).plan(timed)
    assert torch.equal(plan.rows, CacheClipTrained(ratio=ratio).plan(timed).rows)
    assert ("time limit" in plan.reason) == (ratio < 0.2)


def test_exact_chunks_are_left_alone():
    assert len(CacheClipAdaptive().plan(context(num_exact_chunks=len(SPANS))).rows) == 0
