"""Reciprocal rank fusion against its definition."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.fusion import rrf

RANKINGS = st.lists(st.lists(st.sampled_from("abcdef"), unique=True), max_size=3)


@given(RANKINGS)
def test_score_is_the_sum_of_reciprocal_ranks_and_orders(rankings):
    fused = rrf(rankings, key=str)
    for items, score in fused:
        holding = [ranking for ranking in rankings if items[0] in ranking]
        exact = sum(Fraction(1, 61 + ranking.index(items[0])) for ranking in holding)
        assert score == pytest.approx(float(exact))
        assert items == items[:1] * len(holding)
    assert {items[0] for items, _ in fused} == set().union(*rankings)
    assert [score for _, score in fused] == sorted((score for _, score in fused), reverse=True)


def test_second_in_both_rankings_beats_first_in_one():
    assert [items[0] for items, _ in rrf([["a", "b"], ["c", "b"]], key=str)] == ["b", "a", "c"]


def test_items_with_one_key_stay_together_in_the_order_of_the_rankings():
    assert [items for items, _ in rrf([["a", "B"], ["b"]], key=str.lower)] == [["B", "b"], ["a"]]
