"""Windows against slow references, and invariant 5: rows are ascending, unique and inside the context."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.strategies.windows import sliding_windows, top_tokens, tumbling_windows, windows_within_budget

LENGTHS = st.lists(st.integers(1, 40), min_size=0, max_size=6)
GROUPINGS = {"budget": windows_within_budget, "tumbling": tumbling_windows, "sliding": sliding_windows}
RATIOS = st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.29, 0.5, 0.99, 1.0])


def draw_scores(lengths, seed):
    return torch.rand(sum(lengths), generator=torch.Generator().manual_seed(seed))


def candidates(scores, ratio):
    best_first = sorted(range(len(scores)), key=lambda i: (-scores[i].item(), i))
    return set(best_first[: math.floor(ratio * len(scores) + 1e-9)])


def slow_tumbling(scores, lengths, ratio):
    top, kept, start = candidates(scores, ratio), [], 0
    for length in lengths:
        for at in range(start, start + length, 8):
            window = range(at, min(at + 8, start + length))
            if sum(i in top for i in window) * 8 >= 5 * len(window):
                kept += window
        start += length
    return kept


def slow_sliding(scores, lengths, ratio):
    top, kept, start = candidates(scores, ratio), set(), 0
    for length in lengths:
        size = min(8, length)
        for at in range(start, start + length - size + 1):
            window = range(at, at + size)
            if sum(i in top for i in window) * 8 >= 5 * size:
                kept |= set(window)
        start += length
    return sorted(kept)


@settings(deadline=None, max_examples=60)
@given(LENGTHS, RATIOS, st.integers(0, 5))
def test_tumbling_and_sliding_equal_their_definitions(lengths, ratio, seed):
    scores = draw_scores(lengths, seed)
    assert tumbling_windows(scores, lengths, ratio).tolist() == slow_tumbling(scores, lengths, ratio)
    assert sliding_windows(scores, lengths, ratio).tolist() == slow_sliding(scores, lengths, ratio)


@pytest.mark.parametrize("name", GROUPINGS)
@settings(deadline=None, max_examples=60)
@given(lengths=LENGTHS, ratio=RATIOS, seed=st.integers(0, 5))
def test_rows_are_ascending_unique_and_inside(name, lengths, ratio, seed):
    rows = GROUPINGS[name](draw_scores(lengths, seed), lengths, ratio).tolist()
    assert rows == sorted(set(rows))
    assert set(rows) <= set(range(sum(lengths)))


@pytest.mark.parametrize("name", GROUPINGS)
def test_ratio_one_takes_everything_and_ratio_zero_nothing(name):
    lengths = [17, 3, 40]
    scores = draw_scores(lengths, 0)
    assert GROUPINGS[name](scores, lengths, 1.0).tolist() == list(range(60))
    assert GROUPINGS[name](scores, lengths, 0.0).tolist() == []


@settings(deadline=None, max_examples=60)
@given(LENGTHS, RATIOS, st.integers(0, 5))
def test_the_budget_is_kept_and_used_up_to_less_than_a_window(lengths, ratio, seed):
    rows = windows_within_budget(draw_scores(lengths, seed), lengths, ratio)
    budget = math.floor(ratio * sum(lengths) + 1e-9)
    assert budget - 8 < len(rows) <= budget or len(rows) == budget == 0


@settings(deadline=None, max_examples=60)
@given(LENGTHS, RATIOS, st.integers(0, 5), st.integers(0, 2))
def test_the_budget_is_spent_on_the_best_windows_that_fit(lengths, ratio, seed, num_exact):
    scores, windows, start = draw_scores(lengths, seed), [], 0
    for chunk, length in enumerate(lengths):
        for at in range(start, start + length, 8):
            tokens = list(range(at, min(at + 8, start + length)))
            if chunk >= num_exact or ratio == 1:
                windows.append((-sum(scores[token].item() for token in tokens) / len(tokens), tokens))
        start += length
    budget, expected = math.floor(ratio * sum(lengths) + 1e-9), []
    for _, tokens in sorted(windows, key=lambda window: window[0]):
        if len(tokens) <= budget:
            budget -= len(tokens)
            expected += tokens
    assert windows_within_budget(scores, lengths, ratio, num_exact).tolist() == sorted(expected)


def test_the_budget_takes_the_windows_with_the_best_mean():
    scores = torch.zeros(24)
    scores[8:16] = 0.5  # the best mean
    scores[0] = 3.0  # a single high score: mean 0.375
    assert windows_within_budget(scores, [24], 8 / 24).tolist() == list(range(8, 16))


@settings(deadline=None, max_examples=60)
@given(LENGTHS, RATIOS, st.integers(0, 5), st.integers(0, 2))
def test_the_budget_is_spent_on_the_best_tokens_that_are_not_exact(lengths, ratio, seed, num_exact):
    scores, budget = draw_scores(lengths, seed), math.floor(ratio * sum(lengths) + 1e-9)
    start = 0 if ratio == 1 else sum(lengths[:num_exact])
    best = sorted(range(start, sum(lengths)), key=lambda token: -scores[token].item())[:budget]
    assert top_tokens(scores, ratio, sum(lengths[:num_exact])).tolist() == sorted(best)


def test_windows_never_cross_a_chunk():
    scores = torch.zeros(20)
    scores[6:14] = 1.0  # four tokens on each side of the border at 10
    assert tumbling_windows(scores, [10, 10], 8 / 20).tolist() == [8, 9]  # a short window of two, both candidates
    assert sliding_windows(scores, [10, 10], 8 / 20).tolist() == []


def test_a_number_is_recomputed_whole_or_not_at_all():
    scores = torch.zeros(16)
    scores[8:13] = 1.0  # five of the eight tokens of a number
    assert tumbling_windows(scores, [16], 5 / 16).tolist() == list(range(8, 16))


def test_a_ratio_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"between 0 and 1, got 1\.5"):
        windows_within_budget(torch.zeros(8), [8], 1.5)
