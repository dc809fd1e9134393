"""Inspections against slow references: plans at every ratio, sinks, ranks and curves."""

import itertools
import json
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.analysis.inspection import PERCENTS, WINDOW, find_sinks, passage_slices, window_ranks, window_starts
from engine.analysis.inspection_runner import inspect, selection_by_ratio
from engine.prefill.prefill import plan_recompute
from engine.strategies import (
    EPIC,
    CacheBlend,
    CacheClip,
    CacheClipV1,
    CacheClipV2,
    Full,
    InfoFlow,
    OracleWindows,
    ProphetKV,
    QCFuse,
    RandomWindows,
    windows,
)
from engine.types import SelectionContext
from tests.engine.prefill.test_context import NAMES
from tests.engine.test_engine import ASK
from tests.support.doubles import make_engine, run_inspection

WITH_RATIO = [CacheClip, CacheClipV1, CacheClipV2, ProphetKV, InfoFlow, QCFuse, OracleWindows, RandomWindows]
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=5)
PREFIX = 7


def view_of(lengths, seed=0, exact=1):
    scores = torch.rand(3, sum(lengths), generator=torch.Generator().manual_seed(seed)) ** 4
    spans = tuple(range(PREFIX + part.start, PREFIX + part.stop) for part in passage_slices(lengths))
    return SelectionContext(
        spans,
        per_chunk_scores=lambda: scores[0],
        question_attention=lambda: scores[1:],
        oracle_attention=lambda: scores[-1],
        question_attention_norm=lambda: scores[1:],
        compressed_view_attention=lambda anchor_ratio, layer: scores[layer],
        num_exact_chunks=exact,
        num_layers=3,
    )


@pytest.mark.parametrize("build", WITH_RATIO)
@given(lengths=LENGTHS, seed=st.integers(0, 99), exact=st.integers(0, 3))
@settings(max_examples=4, deadline=None)
def test_a_selection_is_the_strategys_own_plan_at_every_ratio_of_the_grid(build, lengths, seed, exact):
    view = view_of(lengths, seed, min(exact, len(lengths)))
    selection = selection_by_ratio(build(), view)
    assert selection.has_ratio
    for percent in range(PERCENTS):
        expected = plan_recompute(build(ratio=percent / 100), view).rows - PREFIX
        assert np.flatnonzero(selection.mask_at(percent)).tolist() == expected.tolist(), percent


def test_a_method_without_a_ratio_has_one_plan_and_one_that_selects_during_the_forward_pass_none():
    view = view_of([20, 30])
    assert selection_by_ratio(CacheBlend(), view) is None
    for strategy, expected in ((EPIC(4), range(20, 24)), (Full(), range(50))):
        selection = selection_by_ratio(strategy, view)
        assert not selection.has_ratio
        for percent in (0, 37, 100):
            assert np.flatnonzero(selection.mask_at(percent)).tolist() == list(expected)


def test_sinks_exceed_their_passages_median_in_a_quarter_of_the_layers():
    primary = np.ones((10, 30))
    primary[:3, 3] = 50  # three layers of ten
    primary[:2, 12] = 5000  # two layers only
    primary[:5, 25] = 49  # below the factor
    assert np.flatnonzero(find_sinks(primary, [10, 20])).tolist() == [3]
    assert not find_sinks(np.zeros((4, 9)), [4, 5]).any()


@given(lengths=LENGTHS, seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_windows_are_ranked_by_their_mean_and_never_cross_a_passage(lengths, seed):
    values = np.random.default_rng(seed).random(sum(lengths))
    means = [
        values[at : min(at + 8, part.stop)].mean()
        for part in passage_slices(lengths)
        for at in range(part.start, part.stop, 8)
    ]
    ranks = window_ranks(values, lengths)
    assert [means[index] for index in np.argsort(ranks)] == pytest.approx(sorted(means, reverse=True))
    assert sorted(ranks.tolist()) == list(range(1, len(means) + 1)) and len(window_starts(lengths)) == len(means)


def test_windows_are_those_that_methods_recompute():
    assert WINDOW == windows.WINDOW_TOKENS


def test_an_engines_inspection_contains_the_passages_and_is_consistent():
    engine = make_engine(*NAMES)
    *steps, last = inspect(engine, replace(ASK, recompute_ratio=0.3), Event())
    inspection = last.inspection
    assert all(step.inspection is None for step in steps)
    assert any("CacheClip" in step.message for step in steps)
    assert "cacheblend" not in inspection.selections and {"cacheclip", "epic", "full"} <= inspection.selections.keys()
    assert inspection.selections["full"].mask_at(0).all() and not inspection.selections["direct"].mask_at(100).any()
    for passage, part in zip(inspection.passages, inspection.passage_slices, strict=True):
        assert len(passage.spans) == part.stop - part.start
        assert "".join(passage.text[a:b] for a, b in passage.spans) == passage.text
        assert all(one <= other for one, other in itertools.pairwise(passage.spans[:, 0]))
    assert inspection.agreement["auxiliary"][30] == pytest.approx(inspection.jaccard_auxiliary)
    assert inspection.agreement["oracle"][100] == 1.0 and np.isnan(inspection.agreement["cacheclip"][0])
    assert -1 <= inspection.rank_correlation <= 1 and inspection.window_ranks.shape[1] == len(inspection.window_starts)
    plain = json.loads(json.dumps(inspection.as_dict(), allow_nan=False))
    assert len(plain["jaccard_over_ratio"]["cacheclip"]) == PERCENTS and plain["passages"] == list(
        inspection.passage_lengths
    )


def test_a_selection_at_a_ratio_is_what_an_answer_recomputes():
    engine = make_engine(*NAMES)
    inspection = run_inspection(engine, ASK)
    for method in ("cacheclip", "cacheclip-v1", "prophetkv", "infoflow", "qcfuse", "epic"):
        *_, answer = engine.ask(replace(ASK, method=method, recompute_ratio=0.4))
        assert answer.recomputed_tokens == inspection.selections[method].mask_at(40).sum(), method
