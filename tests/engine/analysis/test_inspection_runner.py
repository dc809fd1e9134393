"""What an inspection holds: every plan at every ratio, sinks, ranks, curves, each against a slow reference."""

import itertools
import json
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.analysis.attention_profile import WINDOW, parts, window_starts
from engine.analysis.inspection_runner import inspect, selection
from engine.analysis.inspection import NEVER, PERCENTS, Selection
from engine.analysis.sinks import sinks, window_ranks
from engine.prefill.recompute import without_path
from engine.strategies import (
    EPIC,
    CacheBlend,
    CacheClip,
    CacheClipV1,
    CacheClipV2,
    Full,
    OracleWindows,
    ProphetKV,
    RandomWindows,
    windows,
)
from engine.types import SelectionContext
from tests.engine.prefill.test_context import NAMES
from tests.engine.test_engine import ASK
from tests.support.doubles import engine, inspected

WITH_RATIO = [CacheClip, CacheClipV1, CacheClipV2, ProphetKV, OracleWindows, RandomWindows]
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=5)
PREFIX = 7


def view_of(lengths, seed=0, exact=1):
    drawn = torch.rand(3, sum(lengths), generator=torch.Generator().manual_seed(seed)) ** 4
    spans = tuple(range(PREFIX + part.start, PREFIX + part.stop) for part in parts(lengths))
    return SelectionContext(
        spans,
        per_chunk_scores=lambda: drawn[0],
        attention=lambda: drawn[1:],
        oracle_attention=lambda: drawn[-1],
        num_exact_chunks=exact,
        num_layers=3,
    )


@pytest.mark.parametrize("build", WITH_RATIO)
@given(lengths=LENGTHS, seed=st.integers(0, 99), exact=st.integers(0, 3))
@settings(max_examples=4, deadline=None)
def test_a_selection_is_the_strategys_own_plan_at_every_ratio_of_the_grid(build, lengths, seed, exact):
    view = view_of(lengths, seed, min(exact, len(lengths)))
    found = selection(build(), view)
    assert found.has_ratio and found.onset.dtype == np.uint8
    for percent in range(PERCENTS):
        wanted = without_path(build(ratio=percent / 100).plan(view), view).rows - PREFIX
        assert np.flatnonzero(found.at(percent)).tolist() == wanted.tolist(), percent
        without_gaps = np.flatnonzero(found.onset <= percent).tolist()
        assert percent in found.gaps or without_gaps == wanted.tolist()


def test_a_window_that_loses_its_place_at_a_larger_ratio_is_a_gap():
    taken = np.zeros((PERCENTS, 3), bool)
    taken[10:, 0] = taken[20:, 1] = True
    taken[30:40, 1] = False
    found = Selection.of(taken)
    assert found.onset.tolist() == [10, 20, NEVER] and sorted(found.gaps) == list(range(30, 40))
    assert all((found.at(percent) == taken[percent]).all() for percent in range(PERCENTS))


def test_a_method_without_a_ratio_has_one_plan_and_one_that_decides_on_its_way_has_none():
    view = view_of([20, 30])
    assert selection(CacheBlend(), view) is None
    for strategy, wanted in ((EPIC(4), range(20, 24)), (Full(), range(50))):
        found = selection(strategy, view)
        assert not found.has_ratio and found.gaps == {}
        for percent in (0, 37, 100):
            assert np.flatnonzero(found.at(percent)).tolist() == list(wanted)


def test_sinks_are_far_above_their_passage_in_a_quarter_of_the_layers():
    primary = np.ones((10, 30))
    primary[:3, 3] = 50  # three layers of ten
    primary[:2, 12] = 5000  # two layers only
    primary[:5, 25] = 49  # not far enough
    assert np.flatnonzero(sinks(primary, [10, 20])).tolist() == [3]
    assert not sinks(np.zeros((4, 9)), [4, 5]).any()


@given(lengths=LENGTHS, seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_windows_are_ranked_by_their_mean_and_never_cross_a_passage(lengths, seed):
    values = np.random.default_rng(seed).random(sum(lengths))
    held = [
        values[at : min(at + 8, part.stop)].mean() for part in parts(lengths) for at in range(part.start, part.stop, 8)
    ]
    ranks = window_ranks(values, lengths)
    assert [held[place] for place in np.argsort(ranks)] == pytest.approx(sorted(held, reverse=True))
    assert sorted(ranks.tolist()) == list(range(1, len(held) + 1)) and len(window_starts(lengths)) == len(held)


def test_windows_are_those_that_methods_recompute():
    assert WINDOW == windows.WINDOW


def test_an_engines_inspection_holds_the_passages_and_agrees_with_the_looks():
    made = engine(*NAMES)
    *steps, last = inspect(made, replace(ASK, recompute_ratio=0.3), Event())
    found = last.found
    assert [step.found for step in steps] == [None] * len(steps) and any("CacheClip" in step.said for step in steps)
    assert "cacheblend" not in found.selections and {"cacheclip", "epic", "full"} <= found.selections.keys()
    assert found.selections["full"].at(0).all() and not found.selections["direct"].at(100).any()
    for excerpt, part in zip(found.excerpts, found.parts, strict=True):
        assert len(excerpt.spans) == part.stop - part.start
        assert "".join(excerpt.text[a:b] for a, b in excerpt.spans) == excerpt.text
        assert all(one <= other for one, other in itertools.pairwise(excerpt.spans[:, 0]))
    assert found.alike["auxiliary"][30] == pytest.approx(found.jaccard_auxiliary)
    assert found.alike["oracle"][100] == 1.0 and np.isnan(found.alike["cacheclip"][0])
    assert -1 <= found.rank_correlation <= 1 and found.ranks.shape[1] == len(found.windows)
    told = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert len(told["jaccard_over_ratio"]["cacheclip"]) == PERCENTS and told["passages"] == list(found.passages)


def test_what_is_recomputed_at_the_asked_ratio_is_what_an_answer_recomputes():
    made = engine(*NAMES)
    found = inspected(made, ASK)
    for method in ("cacheclip", "cacheclip-v1", "prophetkv", "epic"):
        *_, answer = made.ask(replace(ASK, method=method, recompute_ratio=0.4))
        assert answer.recomputed_tokens == found.selections[method].at(40).sum(), method
