"""Both kinds of fusion against their definitions."""

from fractions import Fraction
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.fusion import MIN_DEVIATION, hybrid_scores, rrf

CHUNKS = st.sampled_from("abcdef")
COSINES = st.dictionaries(CHUNKS, st.integers(-8, 8).map(lambda number: number / 8))
WORD_SCORES = st.dictionaries(CHUNKS, st.integers(0, 40).map(float))
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


@given(COSINES, WORD_SCORES)
def test_hybrid_scores_are_standard_scores_and_weighted_word_scores(cosines, words):
    values = list(cosines.values()) or [0.0]
    deviation = max(pstdev(values), MIN_DEVIATION)
    scores = hybrid_scores(cosines, words, 0.3)
    assert scores.keys() == cosines.keys() | words.keys() and all(score >= 0 for score in scores.values())
    for chunk, score in scores.items():
        standard = (cosines.get(chunk, fmean(values)) - min(values)) / deviation
        assert score == pytest.approx(standard + 0.3 * words.get(chunk, 0.0), abs=1e-9)


@given(COSINES, WORD_SCORES, st.integers(1, 4), st.integers(-2, 2))
def test_the_scale_of_an_embedding_model_does_not_matter(cosines, words, factor, shift):
    other = {chunk: cosine / factor + shift for chunk, cosine in cosines.items()}
    assert hybrid_scores(other, words, 0.3) == pytest.approx(hybrid_scores(cosines, words, 0.3), abs=1e-6)


def test_words_decide_between_cosines_that_differ_by_noise():
    scores = hybrid_scores({"a": 0.5, "b": 0.5 + 1e-8}, {"a": 1.0}, 0.3)
    assert scores["a"] > scores["b"]
