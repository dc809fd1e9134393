"""Generate samples of RULER's tasks at a given length as items; the context is split into passages like a document.

The length is the sum over all passages; question and template are not counted.
"""

from collections.abc import Callable, Iterator
from random import Random

from bench.data.item import Item, Splitter
from bench.ruler.haystack import split_sentences, take_words
from bench.ruler.tasks import TASKS, TaskSample

MAX_ATTEMPTS = 5  # for a sample in which splitting broke a needle
GOLDEN_RATIO = 0.6180339887  # step through the haystack without repeating positions soon
MAX_INTERPOLATIONS = 8  # then bisection
TOLERANCE = 200  # within a 200th of the limit is close enough


def generate(
    task: str, tokens: int, count: int, seed: int, measure: Callable[[str], int], split: Splitter, haystack: str
) -> Iterator[Item]:
    """Yield `count` samples whose passages together have at most `tokens` tokens, as `measure` counts them.

    The passages fill the length to within half a percent, or to within one unit of the haystack (a line of noise, a
    needle, a repeated word). Every needle is complete in one passage. Sample i depends only on the task, the length,
    the seed and i. Raises ValueError for a length too short for the needles, or passages too short for a needle.
    """
    sentences = split_sentences(haystack)
    first_place = Random(f"{task} {tokens} {seed}").random()
    for number in range(count):
        place = (first_place + number * GOLDEN_RATIO) % 1
        words = take_words(sentences, int(place * len(sentences)), tokens + 1)
        for attempt in range(MAX_ATTEMPTS):
            rng = Random(f"{task} {tokens} {seed} {number} {attempt}")
            sample = TASKS[task](rng, words, tokens)
            passages = _passages(sample, tokens, measure, split)
            if not passages:
                raise ValueError(f"{tokens} tokens are too few for {task}: its needles do not fit")
            if all(any(needle in passage for passage in passages) for needle in sample.needles):
                break
        else:
            raise ValueError(f"the passages are too short for {task}: they split {sample.needles[0]!r}")
        yield Item(
            id=f"{task}-{tokens}-{seed}-{number}",
            question=sample.question,
            passages=passages,
            answers=sample.answers,
            group=task,
            metric="recall",
            opening=sample.opening,
            max_new_tokens=sample.max_new_tokens,
        )


def _passages(sample: TaskSample, tokens: int, measure: Callable[[str], int], split: Splitter) -> tuple[str, ...]:
    """Return as much of the context as fits, as passages; none if the needles alone do not fit."""
    by_size: dict[int, list[str]] = {}

    def length(pieces: int) -> int:
        by_size[pieces] = split(sample.context(pieces))
        return sum(map(measure, by_size[pieces]))

    uncut = largest_fitting(lambda pieces: measure(sample.context(pieces)), tokens)  # splitting costs ten times as much
    pieces = largest_fitting(length, tokens, uncut or 1)
    return () if pieces is None else tuple(by_size[pieces])


def largest_fitting(length: Callable[[int], int], limit: int, start: int = 16) -> int | None:
    """Return the largest size with `length(size) <= limit`, or one within a 200th of it; None if 0 is too long.

    `length` grows roughly in proportion to the size and by at least 1 per step; small fluctuations are allowed. It is
    called a few times only, first with `start`, since it tokenizes the whole text.
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
