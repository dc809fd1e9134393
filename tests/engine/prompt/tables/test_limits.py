"""Ranges and limits of numbers, against what a reader would say."""

import math

import pytest

from engine.prompt.tables.limits import find_limits, is_in_range, limits


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("24 bis 48 Stunden vorher", (24, 48)),
        ("\u00a32,000 to \u00a310,000", (2000, 10000)),
        ("up to 500 euros", (-math.inf, 500)),
        ("ab 65 Jahren", (65, math.inf)),
        ("the price is 12 euros", None),
        ("10 to 5", None),
        ("10 to 5 pm", None),
        ("open 9 to 5 Monday to Friday", None),
        ("cut 30 to 10 days", None),
        ("14 to 3 days before", (3, 14)),
        ("lowered from 14 to 3 days", None),
        ("between 5 and 7 days", (5, 7)),
        ("children in Year 5 and above", (5, math.inf)),
        ("12 oder j\u00fcnger", (-math.inf, 12)),
        ("zwischen 3 und 5 Jahren", (3, 5)),
        ("Up to 8 guests and 2 dogs are allowed.", (-math.inf, 8)),
        ("h\u00f6chstens 2 Hunde und 8 G\u00e4ste", (-math.inf, 2)),
    ],
)
def test_ranges_and_limits_are_found(text, bounds):
    assert limits(text) == bounds


def test_a_number_of_the_question_is_within_the_first_range_of_a_row():
    row = [("Amount", "\u00a32,000 to \u00a310,000"), ("Approved by", "director, up to 3 days")]
    assert is_in_range("Who approves a claim of \u00a32,500?", row)
    assert not is_in_range("Who approves a claim of \u00a312,500 in 2024?", row)
    assert not is_in_range("Who approves it?", row)


def test_all_limits_are_found_ranges_first():
    found = list(find_limits("over 5 and at most 9 days, between 2 and 3 rooms"))
    assert [(each.low, each.high) for each in found] == [(2, 3), (-math.inf, 9), (5, math.inf)]
    assert found[1].allows(9)
    assert not found[2].allows(5)
