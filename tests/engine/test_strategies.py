"""Laws that every strategy obeys, then one fact of its own for each."""

import pytest
import torch

from engine.reuse.strategies import STRATEGIES, CacheClip, Direct, Full
from engine.types import View

SPANS = (range(5, 25), range(25, 31), range(31, 60))
SCORES = torch.rand(55, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def view():
    return View(SPANS, scores=lambda: SCORES)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_plan_names_prompt_slots_once_and_in_order(name, view):
    rows = STRATEGIES[name]().plan(view).rows
    assert rows.dtype == torch.int64
    assert rows.tolist() == sorted(set(rows.tolist()) & set(range(60)))


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_plan_is_repeatable(name, view):
    first, second = (STRATEGIES[name]().plan(view).rows for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_empty_context_needs_no_rows(name):
    assert STRATEGIES[name]().plan(View((), scores=lambda: torch.empty(0))).rows.tolist() == []


def test_a_method_that_needs_no_scores_never_waits_for_them():
    def unwanted():
        raise AssertionError("scores were asked for")

    for name, build in STRATEGIES.items():
        if not build.needs_scores:
            STRATEGIES[name]().plan(View(SPANS, unwanted))


def test_full_takes_every_slot_and_direct_none(view):
    assert Full().plan(view).rows.tolist() == list(range(60))
    assert Direct().plan(view).rows.tolist() == []


@pytest.mark.parametrize("grouping", ["budget", "tumbling", "sliding"])
def test_cacheclip_takes_only_context_and_at_one_all_of_it(view, grouping):
    assert set(CacheClip(0.3, grouping).plan(view).rows.tolist()) < set(range(5, 60))
    assert CacheClip(1.0, grouping).plan(view).rows.tolist() == list(range(5, 60))


@pytest.mark.parametrize("bad", [{"ratio": -0.1}, {"ratio": 1.1}, {"grouping": "none"}])
def test_cacheclip_refuses_settings_outside_their_range(bad):
    with pytest.raises(ValueError, match="got"):
        CacheClip(**bad)
