"""The longest of a row of texts that fits, by few measurements: a measurement cuts and tokenises the whole text."""

from collections.abc import Callable

GUESSES = 8  # by proportion; then by halves, which never takes long
NEAR = 200  # a 200th part below the limit is as good as the limit


def largest_fitting(length: Callable[[int], int], most: int, start: int = 16) -> int | None:
    """Return the largest size with `length(size) <= most`, or one within a 200th of it; None when 0 is too long.

    length  grows with the size, about in proportion and by at least 1 a step, so no size above `most` fits; it may
            waver, as the length of passages that overlap more or less does
    start   the size that is tried first
    """
    fits, short = 0, length(0)
    if short > most:
        return None
    size = max(1, start)
    while (long := length(size)) <= most:
        if size > most or most - long <= most // NEAR:
            return size
        fits, short = size, long
        size += max(1, size * (most - long) // long)
    guesses = 0
    while size - fits > 1 and most - short > most // NEAR:
        share = (most - short) / (long - short) if guesses < GUESSES else 0.5
        middle = min(max(fits + int((size - fits) * share), fits + 1), size - 1)
        found = length(middle)
        if found <= most:
            fits, short = middle, found
        else:
            size, long = middle, found
        guesses += 1
    return fits
