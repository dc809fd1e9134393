"""Which arms a command line makes."""

import pytest

from bench.errors import InvalidArgument
from bench.harness.runner import parse_variants, with_variant
from engine.prompt.validate import build_strategy
from engine.request import Request
from engine.strategies import APE, EPIC, CacheBlend, CacheClip


def test_a_method_with_a_ratio_has_an_arm_for_each_ratio_and_others_have_one():
    made = parse_variants(["cacheclip", "epic", "direct", "full"], [0.1, 0.2])
    assert [(arm.method, arm.ratio) for arm in made] == [
        ("cacheclip", 0.1),
        ("cacheclip", 0.2),
        ("epic", None),
        ("direct", 0.0),
        ("full", 1.0),
    ]
    assert made[1].strategy == CacheClip(0.2)
    assert len({arm.key for arm in made}) == len(made)


def test_an_arm_that_is_named_twice_is_one():
    made = parse_variants(["direct", "epic:", "epic", "direct", "random"], [0.2, 0.2])
    assert [arm.key for arm in made] == ["direct@0", "epic", "random@0.2"]


def test_settings_follow_the_name():
    (epic, blend, ape) = parse_variants(
        ["epic:tokens=16", "cacheblend:deviation=keys,gradual=true", "ape:scale=1"], [0.3]
    )
    assert epic.strategy == EPIC(tokens=16)
    assert blend.strategy == CacheBlend(ratio=0.3, deviation="keys", gradual=True)
    assert ape.strategy == APE(scale=1.0)


@pytest.mark.parametrize(
    "method, said",
    [
        ("cacheclap", "not one of cacheclip, "),
        ("epic:k=3", "'k' is not one of tokens"),
        ("epic:tokens=many", "must be a number"),
        ("epic:tokens=999", "between 0 and 512"),
        ("cacheblend:deviation=queries", "one of values, keys"),
        ("direct:tokens=3", "no parameters"),
    ],
)
def test_errors_for_unknown_names_list_the_known_ones(method, said):
    with pytest.raises(InvalidArgument, match=said):
        parse_variants([method], [0.2])


@pytest.mark.parametrize("ratio", [-0.1, 1.5, float("nan")])
def test_a_ratio_outside_its_range_is_refused(ratio):
    with pytest.raises(InvalidArgument, match="between 0 and 1"):
        parse_variants(["cacheclip"], [ratio])


@pytest.mark.parametrize(
    "method", ["epic:tokens=16", "cacheblend:gradual=true", "cacheclip:ratio=0.4", "direct", "full"]
)
def test_the_app_is_asked_for_the_method_of_an_arm(method):
    (arm,) = parse_variants([method], [0.3])
    assert build_strategy(with_variant(Request("Who?"), arm)) == arm.strategy
