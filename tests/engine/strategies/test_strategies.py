"""Laws that every strategy obeys, then one fact of its own for each."""

import math
from dataclasses import replace

import pytest
import torch

from engine.errors import BadRequest
from engine.prompt.builder import validate
from engine.request import Request
from engine.strategies import EPIC, STRATEGIES, CacheBlend, Direct, Full, Prefix, ProphetKV, RandomWindows, methods
from engine.types import Deviation, SelectionContext

SPANS = (range(5, 25), range(25, 31), range(31, 60))
SCORES = torch.rand(55, generator=torch.Generator().manual_seed(0))
ATTENTION = torch.rand(3, 55, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def view():
    return SelectionContext(
        SPANS,
        per_chunk_scores=lambda: SCORES,
        joint_scores=lambda: SCORES.flip(0),
        learned_scores=lambda: SCORES.square(),
        attention=lambda: ATTENTION,
        oracle_attention=lambda: ATTENTION[-1],
    )


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
    assert STRATEGIES[name]().plan(SelectionContext((), *[lambda: torch.empty(0)] * 5)).rows.tolist() == []


def test_a_method_that_needs_no_scores_never_waits_for_them(view):
    def unwanted():
        raise AssertionError("scores were asked for")

    for name, build in STRATEGIES.items():
        if build.scoring is None:
            STRATEGIES[name]().plan(SelectionContext(SPANS, *[unwanted] * 3, view.attention, view.oracle_attention))


def test_full_takes_every_slot_direct_none_and_prefix_all_behind_the_first_chunk(view):
    assert Full().plan(view).rows.tolist() == list(range(60))
    assert Direct().plan(view).rows.tolist() == []
    assert Prefix().plan(view).rows.tolist() == list(range(25, 60))


WINDOWED = ["cacheclip", "cacheclip-trained", "cacheclip-joint", "cacheclip-v1", "cacheclip-v2", "random", "oracle"]


@pytest.mark.parametrize("name", [*WINDOWED, "prophetkv"])
def test_a_ratio_takes_only_context_and_at_one_all_of_it(view, name):
    build = STRATEGIES[name]
    assert set(build(ratio=0.3).plan(view).rows.tolist()) < set(range(5, 60))
    assert build(ratio=1.0).plan(view).rows.tolist() == list(range(5, 60))
    assert build(ratio=0.0).plan(view).rows.tolist() == []


@pytest.mark.parametrize("name", ["cacheclip", "cacheclip-trained", "cacheclip-joint", "random", "oracle"])
def test_no_budget_goes_to_the_exact_chunk_before_all_others_are_whole(view, name):
    build = STRATEGIES[name]
    assert not set(build(ratio=0.6).plan(view).rows.tolist()) & set(SPANS[0])
    assert set(build(ratio=0.9).plan(view).rows.tolist()) >= set(range(25, 60))


@pytest.mark.parametrize(
    "name, start", [("cacheclip", 31), ("cacheclip-joint", 39), ("cacheclip-trained", 47), ("oracle", 55)]
)
def test_every_windowed_method_asks_what_it_names(name, start):
    """Each kind of evidence points at a window of its own; slots 55 to 59 are a short one, read here as five tokens."""

    def pointing(at):
        found = torch.zeros(55)
        found[at - 5 : at + 3] = 1.0
        return lambda: found

    layers = torch.stack([pointing(25)(), pointing(25)()])
    view = SelectionContext(SPANS, pointing(31), pointing(39), pointing(47), lambda: layers, pointing(55))
    assert STRATEGIES[name](ratio=8 / 55).plan(view).rows.tolist()[:5] == list(range(start, start + 5))


def test_epic_takes_the_first_tokens_of_every_chunk_but_the_first(view):
    assert EPIC(tokens=4).plan(view).rows.tolist() == [25, 26, 27, 28, 31, 32, 33, 34]
    assert EPIC(tokens=16).plan(view).rows.tolist() == [*range(25, 31), *range(31, 47)]


def test_prophetkv_takes_the_tokens_with_the_most_attention_over_all_layers(view):
    rows = ProphetKV(ratio=0.2).plan(view).rows.tolist()
    best = sorted(range(55), key=lambda token: -sum(layer[token].item() for layer in ATTENTION))[: math.floor(0.2 * 55)]
    assert rows == sorted(5 + token for token in best)


def test_random_windows_follow_their_seed_and_differ_from_prompt_to_prompt(view):
    one, again, other = (RandomWindows(0.3, seed).plan(view).rows.tolist() for seed in (1, 1, 2))
    assert one == again != other
    asked = {tuple(RandomWindows(0.3, 1).plan(replace(view, seed=seed)).rows.tolist()) for seed in range(5)}
    assert len(asked) > 2


def test_cacheblend_lets_all_rows_pass_until_its_check_layer_and_then_only_the_most_deviant(view):
    plan = CacheBlend(ratio=0.2, check_layer=2).plan(view)
    assert plan.rows.tolist() == list(range(5, 60))
    deviation = Deviation(keys=ATTENTION[0], values=ATTENTION[1])
    assert (
        plan.row_filter(0, lambda: deviation)
        is plan.row_filter(1, lambda: deviation)
        is plan.row_filter(3, lambda: deviation)
        is None
    )
    best = sorted(range(55), key=lambda token: -ATTENTION[1][token].item())[: math.floor(0.2 * 55)]
    assert plan.row_filter(2, lambda: deviation).tolist() == sorted(best)


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.name)
def test_every_setting_says_what_it_is_and_holds_its_own_default(method):
    for setting in method.params:
        setting.check(setting.default)
        assert setting.label and setting.about.endswith(".")
    assert method.label and method.description.endswith(".")


WRONG = [
    ("cacheclip", {"ratio": -0.1}),
    ("cacheclip", {"ratio": 1.1}),
    ("random", {"seed": 0.5}),
    ("epic", {"tokens": -1}),
    ("epic", {"tokens": True}),
    ("ape", {"temperature": 0}),
    ("cacheblend", {"deviation": "queries"}),
    ("cacheblend", {"gradual": 1}),
]


@pytest.mark.parametrize("name, wrong", WRONG)
def test_settings_outside_their_range_are_refused_with_the_range(name, wrong):
    with pytest.raises(ValueError, match=r"must be .*got"):
        STRATEGIES[name](**wrong)


@pytest.mark.parametrize(
    "method, options, said",
    [
        ("epic", {"tokens": 1000}, "between 0 and 512"),
        ("epic", {"grouping": "budget"}, "it has: tokens"),
        ("direct", {"tokens": 3}, "it has: none"),
        ("cacheclip", {"ratio": 0.5}, "no option"),
        ("cacheclip", ["ratio"], "names with values"),
    ],
)
def test_a_request_with_options_that_its_method_does_not_have_is_refused(method, options, said):
    with pytest.raises(BadRequest, match=said):
        validate(Request("Who?", method, options=options))
