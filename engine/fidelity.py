"""How close a model's answers with reused KV are to those of full prefill, at several recompute ratios.

Measured once for each model (`engine.analysis.calibration`). Torch-free, so that the UI can import it.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from statistics import fmean, median

TARGETS = {"fast": 0.3, "balanced": 0.1, "faithful": 0.03}  # maximum KL in nats, for `FidelityCurve.least_ratio`
DEFAULT_TARGET = "balanced"
RATIOS = (0.0, 0.05, 0.1, 0.2, 0.4)  # measured recompute ratios, ascending
MAX_RATIO = 0.5  # of `FidelityCurve.least_ratio`: recomputing more is at most twice as fast as full prefill
MIN_QUESTIONS = 12  # fewer show nothing
CALIBRATED_PASSAGES = 8  # of each question that is measured
PASSAGES_EXPONENT = 0.75  # of the KL's growth with the number of passages before the last


@dataclass(frozen=True, slots=True)
class FidelitySample:
    """One question at one recompute ratio, relative to full prefill."""

    ratio: float  # nominal
    kl: float  # KL(full || method) in nats, mean over the first tokens of full prefill's answer
    top1: float  # fraction of these tokens where the most likely one is the same
    ttft_ms: float
    full_ttft_ms: float


@dataclass(frozen=True, slots=True)
class FidelityPoint:
    """All questions at one recompute ratio."""

    ratio: float
    kl: float  # this and the next: means
    top1: float
    ttft_ms: float  # this and the next: medians
    speedup: float


@dataclass(frozen=True, slots=True)
class FidelityCurve:
    """Fidelity and time of one method on one model and machine, by recompute ratio."""

    method: str
    points: tuple[FidelityPoint, ...]  # by ascending ratio
    full_ttft_ms: float  # median
    num_questions: int

    def for_passages(self, passages: int) -> "FidelityCurve":
        """Return the curve expected for questions with so many passages: the more, the more context each one lacks.

        The exponent fits the bundled model with both adapters roughly (docs/results/fidelity.md).
        """
        factor = (max(0, passages - 1) / (CALIBRATED_PASSAGES - 1)) ** PASSAGES_EXPONENT
        return replace(self, points=tuple(replace(point, kl=factor * point.kl) for point in self.points))

    def least_ratio(self, max_kl: float) -> float | None:
        """Return the least ratio, in per cent steps, from which on the expected KL is at most `max_kl` nats.

        None if it is above MAX_RATIO.
        """
        least = 1.0
        for (low, low_kl), (high, high_kl) in reversed(list(pairwise(self._known))):
            if low_kl > max_kl:
                least = high - (high - low) * (max_kl - high_kl) / (low_kl - high_kl)
                break
            least = low
        least = math.ceil(100 * least - 1e-9) / 100
        return least if least <= MAX_RATIO else None

    def expected_kl(self, ratio: float) -> float:
        """Return the KL in nats at a recompute ratio: interpolated between the measured ones, 0 at a ratio of 1."""
        known = self._known
        right = min(bisect_left(known, ratio, key=itemgetter(0)), len(known) - 1)
        (low, low_kl), (high, high_kl) = known[max(0, right - 1)], known[right]
        weight = (ratio - low) / (high - low) if high > low else 1.0
        return low_kl + weight * (high_kl - low_kl)

    @property
    def _known(self) -> list[tuple[float, float]]:
        """The measured ratios and their KL, and that of recomputing everything."""
        return [(point.ratio, point.kl) for point in self.points] + [(1.0, 0.0)]


def fidelity_curve(
    method: str, questions: Sequence[Sequence[FidelitySample]], min_questions: int = MIN_QUESTIONS
) -> FidelityCurve | None:
    """Return the curve of the measured questions; None if there are fewer than `min_questions`."""
    if len(questions) < min_questions:
        return None
    points = []
    for samples in zip(*questions, strict=True):
        speedups = [sample.full_ttft_ms / sample.ttft_ms for sample in samples]
        points.append(
            FidelityPoint(
                ratio=samples[0].ratio,
                kl=fmean(sample.kl for sample in samples),
                top1=fmean(sample.top1 for sample in samples),
                ttft_ms=median(sample.ttft_ms for sample in samples),
                speedup=median(speedups),
            )
        )
    full_ttft_ms = median(samples[0].full_ttft_ms for samples in questions)
    return FidelityCurve(method, tuple(points), full_ttft_ms, len(questions))
