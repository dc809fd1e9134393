"""Statistics over questions: medians, means, and 95 % percentile bootstrap intervals.

scipy.stats.bootstrap is not used: a resample of a ratio may have denominator 0 and must be left out.
"""

import statistics
from collections.abc import Callable, Sequence

import numpy as np

RESAMPLES = 2000


def interval(statistic: Callable[..., np.ndarray], *columns: Sequence[float]) -> tuple[float, float]:
    """Return the low and high end of the 95 % percentile interval of a statistic; the columns are resampled together.

    `statistic` maps arrays [resamples, n], one per column, to [resamples].
    """
    values = [np.asarray(column, dtype=float) for column in columns]
    indices = np.random.default_rng(0).integers(0, len(values[0]), size=(RESAMPLES, len(values[0])))
    low, high = np.nanpercentile(statistic(*(value[indices] for value in values)), [2.5, 97.5])
    return float(low), float(high)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval of the median."""
    return interval(lambda resampled: np.median(resampled, axis=1), values)


def ratio_interval(numerators: Sequence[float], denominators: Sequence[float]) -> tuple[float, float]:
    """Return the interval of mean(numerators) / mean(denominators), paired; resamples dividing by 0 are dropped."""

    def ratios(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        means = b.mean(axis=1)
        return np.where(means > 0, a.mean(axis=1) / np.where(means > 0, means, 1), np.nan)

    return interval(ratios, numerators, denominators)


def mean_fields(name: str, values: Sequence[float]) -> dict[str, float]:
    """Return a row's fields for the mean and the ends of its interval: `name`, `name_low` and `name_high`."""
    low, high = interval(lambda resampled: resampled.mean(axis=1), values)
    return {name: statistics.fmean(values), f"{name}_low": low, f"{name}_high": high}


def medians(samples: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return a row's fields for samples with the same keys: the median of each value, and their number `n`."""
    return {name: statistics.median(sample[name] for sample in samples) for name in samples[0]} | {"n": len(samples)}
