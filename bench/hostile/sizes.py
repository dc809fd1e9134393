"""Random sizes of hostile files."""

import math
import random


def size(generator: random.Random, low: int, high: int) -> int:
    """Return a random number whose logarithm is evenly distributed: small ones are as frequent as large ones."""
    return round(math.exp(generator.uniform(math.log(low), math.log(high))))
