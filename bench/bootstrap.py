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


def slope_interval(times: Sequence[float], values: Sequence[float]) -> tuple[float, float, float]:
    """Return the least-squares slope of autocorrelated values, and the ends of its 95 % interval.

    Residuals are resampled in blocks of a third of the values, which keeps their autocorrelation, and are scaled for
    the two degrees of freedom of the fit. Where they are correlated over several values, the interval is too narrow: it
    holds the slope in 89 % of series of 126 values whose correlation is 0.8 from one to the next.
    """
    t = np.asarray(times, dtype=float) - np.mean(times)
    y = np.asarray(values, dtype=float) - np.mean(values)
    slope = t @ y / (t @ t)
    residuals = y - slope * t
    size = -(-len(t) // 3)
    starts = np.random.default_rng(0).integers(0, len(t) - size + 1, size=(RESAMPLES, 3, 1))
    resampled = residuals[(starts + np.arange(size)).reshape(RESAMPLES, -1)[:, : len(t)]]
    errors = np.sqrt(3) * (resampled @ t) / (t @ t)  # 3 blocks of which the fit has taken 2
    low, high = np.percentile(errors, [2.5, 97.5])
    return float(slope), float(slope - high), float(slope - low)
