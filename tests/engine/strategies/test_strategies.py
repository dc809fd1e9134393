"""Invariants of all strategies, then one property of each."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.errors import BadRequest
from engine.prompt.validate import validate
from engine.request import Request
from engine.strategies import (
    EPIC,
    STRATEGIES,
    CacheBlend,
    Direct,
    Full,
    InfoFlow,
    Prefix,
    ProphetKV,
    QCFuse,
    RandomWindows,
    list_methods,
)
from engine.types import Deviation, SelectionContext

README = Path(__file__).parents[3] / "README.md"
SPANS = (range(5, 25), range(25, 31), range(31, 60))
SCORES = torch.rand(55, generator=torch.Generator().manual_seed(0))
ATTENTION = torch.rand(3, 55, generator=torch.Generator().manual_seed(1))
NORMS = torch.rand(3, 55, generator=torch.Generator().manual_seed(2))


@pytest.fixture
def context():
    return SelectionContext(
        SPANS,
        per_chunk_scores=lambda: SCORES,
        joint_scores=lambda: SCORES.flip(0),
        learned_scores=lambda: SCORES.square(),
        question_attention=lambda: ATTENTION,
        oracle_attention=lambda: ATTENTION[-1],
        question_attention_norm=lambda: NORMS,
        compressed_view_attention=lambda anchor_ratio, layer: NORMS[layer] * (anchor_ratio - ATTENTION[layer]),
        num_layers=3,
    )


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_plan_names_prompt_slots_once_and_in_order(name, context):
    rows = STRATEGIES[name]().plan(context).rows
    assert rows.dtype == torch.int64
    assert rows.tolist() == sorted(set(rows.tolist()) & set(range(60)))


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_plan_is_repeatable(name, context):
    first, second = (STRATEGIES[name]().plan(context).rows for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_empty_context_needs_no_rows(name):
    assert STRATEGIES[name]().plan(SelectionContext((), *[lambda: torch.empty(0)] * 5)).rows.tolist() == []


def test_a_strategy_without_a_score_mode_requests_no_scores(context):
    def unexpected():
        raise AssertionError("scores were requested")

    for strategy in STRATEGIES.values():
        if strategy.score_mode is None:
            scores = ("per_chunk_scores", "joint_scores", "learned_scores")
            strategy().plan(replace(context, **dict.fromkeys(scores, unexpected)))


def test_full_selects_every_slot_direct_none_and_prefix_all_after_the_first_chunk(context):
    assert Full().plan(context).rows.tolist() == list(range(60))
    assert Direct().plan(context).rows.tolist() == []
    assert Prefix().plan(context).rows.tolist() == list(range(25, 60))


WINDOWED = ["cacheclip", "cacheclip-trained", "cacheclip-joint", "cacheclip-v1", "cacheclip-v2", "random", "oracle"]


@pytest.mark.parametrize("name", [*WINDOWED, "prophetkv", "infoflow", "qcfuse"])
def test_only_context_is_selected_and_all_of_it_at_a_ratio_of_one(context, name):
    build = STRATEGIES[name]
    assert set(build(ratio=0.3).plan(context).rows.tolist()) < set(range(5, 60))
    assert build(ratio=1.0).plan(context).rows.tolist() == list(range(5, 60))
    assert build(ratio=0.0).plan(context).rows.tolist() == []


@pytest.mark.parametrize("name", [*WINDOWED, "prophetkv", "infoflow", "qcfuse"])
def test_exact_chunks_need_no_scores_and_are_recomputed_only_at_a_ratio_of_one(name):
    exact = SelectionContext(SPANS, num_exact_chunks=len(SPANS))  # it has no scores
    assert STRATEGIES[name](ratio=0.9).plan(exact).rows.tolist() == []
    assert STRATEGIES[name](ratio=1.0).plan(exact).rows.tolist() == list(range(5, 60))


@pytest.mark.parametrize(
    "name", ["cacheclip", "cacheclip-trained", "cacheclip-joint", "random", "oracle", "infoflow", "qcfuse"]
)
def test_the_exact_chunk_is_selected_last(context, name):
    build = STRATEGIES[name]
    assert not set(build(ratio=0.6).plan(context).rows.tolist()) & set(SPANS[0])
    assert set(build(ratio=0.9).plan(context).rows.tolist()) >= set(range(25, 60))


@pytest.mark.parametrize(
    "name, start", [("cacheclip", 31), ("cacheclip-joint", 39), ("cacheclip-trained", 47), ("oracle", 55)]
)
def test_every_window_strategy_uses_its_own_scores(name, start):
    """Each kind of score is high in another window; slots 55 to 59 are a short window, compared as five tokens."""

    def high_at(slot):
        scores = torch.zeros(55)
        scores[slot - 5 : slot + 3] = 1.0
        return lambda: scores

    layers = torch.stack([high_at(25)(), high_at(25)()])
    context = SelectionContext(SPANS, high_at(31), high_at(39), high_at(47), lambda: layers, high_at(55))
    assert STRATEGIES[name](ratio=8 / 55).plan(context).rows.tolist()[:5] == list(range(start, start + 5))


def test_epic_selects_the_first_tokens_of_every_chunk_but_the_first(context):
    assert EPIC(tokens=4).plan(context).rows.tolist() == [25, 26, 27, 28, 31, 32, 33, 34]
    assert EPIC(tokens=16).plan(context).rows.tolist() == [*range(25, 31), *range(31, 47)]


def test_prophetkv_selects_the_tokens_with_most_attention_over_all_layers(context):
    rows = ProphetKV(ratio=0.2).plan(context).rows.tolist()
    best = sorted(range(55), key=lambda token: -sum(layer[token].item() for layer in ATTENTION))[: math.floor(0.2 * 55)]
    assert rows == sorted(5 + token for token in best)


def best_after_the_first_chunk(score, count):
    return sorted(sorted(range(25, 60), key=lambda slot: -score(slot - 5))[:count])


def test_infoflow_selects_the_tokens_with_the_largest_norm_in_the_last_two_layers(context):
    rows = InfoFlow(ratio=0.2).plan(context).rows.tolist()
    assert rows == best_after_the_first_chunk(lambda token: NORMS[1][token].item() + NORMS[2][token].item(), 11)


@pytest.mark.parametrize("anchors, depth, layer", [(0.15, 0.7, 1), (0.4, 0.0, 0), (1.0, 1.0, 2)])
def test_qcfuse_selects_by_the_attention_of_its_critical_layer_after_its_anchors(context, anchors, depth, layer):
    rows = QCFuse(ratio=0.2, anchors=anchors, depth=depth).plan(context).rows.tolist()
    score = NORMS[layer] * (anchors - ATTENTION[layer])
    assert rows == best_after_the_first_chunk(lambda token: score[token].item(), 11)


@pytest.mark.parametrize("name", ["infoflow", "qcfuse"])
@pytest.mark.parametrize("ratio, exact", [(0.0, 1), (0.01, 1), (0.9, 3)])
def test_nothing_is_scored_when_nothing_is_recomputed(name, ratio, exact):
    """0.01 x 55 tokens is less than one token."""
    assert STRATEGIES[name](ratio=ratio).plan(SelectionContext(SPANS, num_exact_chunks=exact)).rows.tolist() == []


def test_random_windows_follow_their_seed_and_differ_from_prompt_to_prompt(context):
    one, again, other = (RandomWindows(0.3, seed).plan(context).rows.tolist() for seed in (1, 1, 2))
    assert one == again != other
    draws = {tuple(RandomWindows(0.3, 1).plan(replace(context, seed=seed)).rows.tolist()) for seed in range(5)}
    assert len(draws) > 2


def test_cacheblend_filters_at_its_check_layer_only_and_keeps_the_largest_deviations(context):
    plan = CacheBlend(ratio=0.2, check_layer=2).plan(context)
    assert plan.rows.tolist() == list(range(5, 60))
    deviation = Deviation(keys=ATTENTION[0], values=ATTENTION[1])
    assert [plan.row_filter(layer, lambda: deviation) for layer in (0, 1, 3)] == [None] * 3
    best = sorted(range(55), key=lambda token: -ATTENTION[1][token].item())[: math.floor(0.2 * 55)]
    assert plan.row_filter(2, lambda: deviation).tolist() == sorted(best)


@pytest.mark.parametrize("method", list_methods(), ids=lambda method: method.name)
def test_every_parameter_is_described_and_accepts_its_default(method):
    for param in method.params:
        param.validate(param.default)
        assert param.label and param.description.endswith(".")
    assert method.label and method.description.endswith(".")


INVALID = [
    ("cacheclip", {"ratio": -0.1}),
    ("cacheclip", {"ratio": 1.1}),
    ("random", {"seed": 0.5}),
    ("epic", {"tokens": -1}),
    ("epic", {"tokens": True}),
    ("ape", {"temperature": 0}),
    ("cacheblend", {"deviation": "queries"}),
    ("cacheblend", {"gradual": 1}),
    ("infoflow", {"ratio": 1.1}),
    ("qcfuse", {"anchors": 1.1}),
    ("qcfuse", {"depth": -0.1}),
]


@pytest.mark.parametrize("name, options", INVALID)
def test_parameters_outside_their_range_are_refused_with_the_range(name, options):
    with pytest.raises(ValueError, match=r"must be .*got"):
        STRATEGIES[name](**options)


@pytest.mark.parametrize(
    "method, options, message",
    [
        ("epic", {"tokens": 1000}, "between 0 and 512"),
        ("epic", {"grouping": "budget"}, "its options: tokens"),
        ("direct", {"tokens": 3}, "its options: none"),
        ("cacheclip", {"ratio": 0.5}, "not an option"),
        ("cacheclip", ["ratio"], "map names to values"),
    ],
)
def test_a_request_with_options_that_its_method_does_not_have_is_refused(method, options, message):
    with pytest.raises(BadRequest, match=message):
        validate(Request("Who?", method, options=options))


@pytest.mark.parametrize("strategy", [each for each in STRATEGIES.values() if each.paper])
def test_the_readmes_method_table_links_each_class_to_its_paper(strategy):
    lines = README.read_text("utf-8").splitlines()
    assert any(f"`{strategy.__name__}`" in line and f"arxiv.org/abs/{strategy.paper}" in line for line in lines)
