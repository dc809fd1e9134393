"""Bootstrap intervals: how far a figure could move with other questions of the same kind."""

import random
import statistics
from collections.abc import Sequence

DRAWS = 2000


def median_interval(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Return the low and high end of the 95 % percentile bootstrap interval of the median."""
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(DRAWS))
    return medians[int(0.025 * DRAWS)], medians[int(0.975 * DRAWS) - 1]
