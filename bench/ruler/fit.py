"""Find the largest size that fits with few measurements, since each one splits and tokenizes the whole text."""

from collections.abc import Callable

MAX_INTERPOLATIONS = 8  # then bisection
TOLERANCE = 200  # within a 200th of the limit is close enough


def largest_fitting(length: Callable[[int], int], limit: int, start: int = 16) -> int | None:
    """Return the largest size with `length(size) <= limit`, or one within a 200th of it; None if 0 is too long.

    length  grows roughly in proportion to the size and by at least 1 per step; small fluctuations are allowed
    start   the size that is tried first
    """
    fits, short = 0, length(0)
    if short > limit:
        return None
    size = max(1, start)
    while (long := length(size)) <= limit:
        if size > limit or limit - long <= limit // TOLERANCE:
            return size
        fits, short = size, long
        size += max(1, size * (limit - long) // long)
    steps = 0
    while size - fits > 1 and limit - short > limit // TOLERANCE:
        fraction = (limit - short) / (long - short) if steps < MAX_INTERPOLATIONS else 0.5
        middle = min(max(fits + int((size - fits) * fraction), fits + 1), size - 1)
        measured = length(middle)
        if measured <= limit:
            fits, short = middle, measured
        else:
            size, long = middle, measured
        steps += 1
    return fits
