"""Reciprocal rank fusion against its definition."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.retrieval.fusion import fuse

RANKINGS = st.lists(st.lists(st.sampled_from("abcdef"), unique=True), max_size=3)


@given(RANKINGS)
def test_score_is_the_sum_of_reciprocal_ranks_and_orders(rankings):
    fused = fuse(rankings)
    for item, score in fused:
        exact = sum(Fraction(1, 61 + ranking.index(item)) for ranking in rankings if item in ranking)
        assert score == pytest.approx(float(exact))
    assert {item for item, _ in fused} == set().union(*rankings)
    assert [score for _, score in fused] == sorted((score for _, score in fused), reverse=True)


def test_found_by_both_beats_first_in_one():
    assert [item for item, _ in fuse([["a", "b"], ["c", "b"]])] == ["b", "a", "c"]
