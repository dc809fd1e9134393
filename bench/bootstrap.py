"""Bootstrap intervals: how far a figure could move with other questions of the same kind."""

from collections.abc import Callable, Sequence

import numpy as np

DRAWS = 2000
Statistic = Callable[..., np.ndarray]


def interval(statistic: Statistic, *columns: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Return the low and high end of the 95 % percentile bootstrap interval of a statistic.

    statistic  takes arrays [draws, n], one for each column, and returns [draws]
    columns    paired: questions are drawn, and every column with them
    """
    values = [np.asarray(column, dtype=float) for column in columns]
    drawn = np.random.default_rng(seed).integers(0, len(values[0]), size=(DRAWS, len(values[0])))
    low, high = np.nanpercentile(statistic(*(value[drawn] for value in values)), [2.5, 97.5])
    return float(low), float(high)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval of the median."""
    return interval(lambda drawn: np.median(drawn, axis=1), values)


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval of the mean."""
    return interval(lambda drawn: drawn.mean(axis=1), values)


def ratio_interval(above: Sequence[float], below: Sequence[float]) -> tuple[float, float]:
    """Return the interval of mean(above) / mean(below), paired; draws whose denominator is 0 are left out."""

    def ratios(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        means = b.mean(axis=1)
        return np.where(means > 0, a.mean(axis=1) / np.where(means > 0, means, 1), np.nan)

    return interval(ratios, above, below)
