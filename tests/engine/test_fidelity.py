"""Fidelity by recompute ratio: means and medians over questions, and the least ratio for a target."""

import pytest

from engine.fidelity import CALIBRATED_PASSAGES, MIN_QUESTIONS, RATIOS, FidelitySample, fidelity_curve


def question(kls, full_ttft_ms=1000.0):
    """Return samples with the given KL at each of RATIOS, and a TTFT that grows with the ratio."""
    return [
        FidelitySample(ratio, kl, 1 - kl, 100 + 1000 * ratio, full_ttft_ms)
        for ratio, kl in zip(RATIOS, kls, strict=True)
    ]


def curve(kls):
    return fidelity_curve("cacheclip", [question(kls)], min_questions=1)


def test_a_point_is_the_mean_fidelity_and_the_median_time_of_all_questions():
    questions = [question([each] * 5, full_ttft_ms) for each, full_ttft_ms in ((0.1, 400), (0.2, 900), (0.9, 500))]
    result = fidelity_curve("cacheclip", questions, min_questions=3)
    assert [point.ratio for point in result.points] == list(RATIOS)
    assert result.points[3].kl == pytest.approx(0.4) and result.points[3].top1 == pytest.approx(0.6)
    assert result.points[3].ttft_ms == 300 and result.points[3].speedup == pytest.approx(500 / 300)
    assert (result.full_ttft_ms, result.num_questions) == (500, 3)


def test_few_questions_show_nothing():
    assert fidelity_curve("cacheclip", [question([0] * 5)] * (MIN_QUESTIONS - 1)) is None
    assert fidelity_curve("cacheclip", [question([0] * 5)] * MIN_QUESTIONS) is not None


@pytest.mark.parametrize(
    ("kls", "max_kl", "ratio"),
    [
        ([0.05, 0.04, 0.03, 0.02, 0.01], 0.1, 0.0),
        ([0.5, 0.3, 0.2, 0.09, 0.01], 0.1, 0.2),
        ([0.5, 0.1, 0.1, 0.1, 0.1], 0.1, 0.05),
        ([0.05, 0.5, 0.2, 0.09, 0.01], 0.1, 0.2),  # a low ratio that is close by chance does not count
        ([0.5, 0.3, 0.2, 0.2, 0.04], 0.1, 0.33),
        ([0.5, 0.4, 0.3, 0.2, 0.12], 0.1, 0.5),  # between 40 % and everything
        ([0.5, 0.5, 0.5, 0.5, 0.5], 0.1, None),
    ],
)
def test_the_least_ratio_from_which_on_the_target_is_met(kls, max_kl, ratio):
    found = curve(kls).least_ratio(max_kl)
    assert found == ratio and (found is None or curve(kls).expected_kl(found) <= max_kl + 1e-9)


def test_the_kl_grows_with_the_number_of_passages_and_is_as_measured_for_that_of_the_calibration():
    measured = curve([0.5, 0.3, 0.2, 0.1, 0.04])
    assert measured.for_passages(CALIBRATED_PASSAGES) == measured
    assert {point.kl for passages in (0, 1) for point in measured.for_passages(passages).points} == {0.0}
    kls = [[point.kl for point in measured.for_passages(passages).points] for passages in (2, 3, 8, 40)]
    assert kls == sorted(kls) and all(each == sorted(each, reverse=True) for each in kls)


@pytest.mark.parametrize(
    ("ratio", "kl"), [(0.0, 0.5), (0.025, 0.4), (0.05, 0.3), (0.3, 0.07), (0.4, 0.04), (0.7, 0.02), (1.0, 0.0)]
)
def test_the_expected_kl_is_interpolated_and_zero_if_all_is_recomputed(ratio, kl):
    assert curve([0.5, 0.3, 0.2, 0.1, 0.04]).expected_kl(ratio) == pytest.approx(kl)
