"""Generate samples of RULER's tasks at a given length as items; the context is split into passages like a document.

The length is the sum over all passages; question and template are not counted.
"""

from collections.abc import Callable, Iterator
from random import Random

from bench.data.item import Item, Splitter
from bench.errors import InvalidDataset
from bench.ruler.common_words import common_words
from bench.ruler.fit import largest_fitting
from bench.ruler.haystack import split_sentences, take_words
from bench.ruler.niah import NEEDLE_TASKS
from bench.ruler.sample import TaskInputs, TaskSample
from bench.ruler.variable_tracking import variable_tracking

TASKS: dict[str, Callable[[TaskInputs], TaskSample]] = {
    **NEEDLE_TASKS,
    "variable_tracking": variable_tracking,
    "common_words": common_words,
}
MAX_ATTEMPTS = 5  # for a sample in which splitting broke a needle
GOLDEN_RATIO = 0.6180339887  # step through the haystack without repeating positions soon


def generate(
    task: str, tokens: int, count: int, seed: int, measure: Callable[[str], int], split: Splitter, haystack: str
) -> Iterator[Item]:
    """Yield `count` samples whose passages together have at most `tokens` tokens.

    measure   counts the tokens of a passage in the prompt
    haystack  English prose, used by the tasks with a text haystack

    The passages fill the length to within half a percent, or to within one unit of the haystack (a line of noise, a
    needle, a repeated word). Every needle is complete in one passage. Sample i depends only on the task, the length,
    the seed and i. Raises ValueError for an unknown task, a length too short for the needles, or passages too short for
    a needle, and InvalidDataset for a haystack without words.
    """
    if task not in TASKS:
        raise ValueError(f"{task!r} is not one of the RULER tasks {', '.join(TASKS)}")
    haystack_sentences = split_sentences(haystack)
    if not haystack_sentences:
        raise InvalidDataset("The haystack has no words.")
    for number in range(count):
        yield _item(task, tokens, seed, number, measure, split, haystack_sentences)


def _item(
    task: str,
    tokens: int,
    seed: int,
    number: int,
    measure: Callable[[str], int],
    split: Splitter,
    haystack_sentences: list[str],
) -> Item:
    place = (Random(f"{task} {tokens} {seed}").random() + number * GOLDEN_RATIO) % 1
    words = take_words(haystack_sentences, int(place * len(haystack_sentences)), tokens + 1)
    for attempt in range(MAX_ATTEMPTS):
        rng = Random(f"{task} {tokens} {seed} {number} {attempt}")
        sample = TASKS[task](TaskInputs(rng, words, tokens))
        passages = _passages(sample, tokens, measure, split)
        if passages is None:
            raise ValueError(f"{tokens} tokens are too few for {task}: its needles do not fit")
        if all(any(needle in passage for passage in passages) for needle in sample.needles):
            break
    else:
        raise ValueError(f"the passages are too short for {task}: they split {sample.needles[0]!r}")
    return Item(
        id=f"{task}-{tokens}-{seed}-{number}",
        question=sample.question,
        passages=passages,
        answers=sample.answers,
        group=task,
        metric="recall",
        opening=sample.opening,
        max_new_tokens=sample.max_new_tokens,
    )


def _passages(
    sample: TaskSample, tokens: int, measure: Callable[[str], int], split: Splitter
) -> tuple[str, ...] | None:
    by_size: dict[int, list[str]] = {}

    def length(pieces: int) -> int:
        by_size[pieces] = split(sample.context(pieces))
        return sum(map(measure, by_size[pieces]))

    uncut = largest_fitting(lambda pieces: measure(sample.context(pieces)), tokens)  # splitting costs ten times as much
    pieces = largest_fitting(length, tokens, uncut or 1)
    return None if pieces is None else tuple(by_size[pieces])
