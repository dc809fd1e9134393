"""Samples of RULER's tasks at a length, as items: the context is cut into passages as a document would be.

The length is that of all passages together, as `measure` counts it; the question and the template come on top.
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
MAX_ATTEMPTS = 5  # of a sample whose needle the cut broke: in a sentence longer than a passage
GOLDEN_RATIO = 0.6180339887  # steps of this share of the haystack come back to no place for long


def generate(
    task: str, tokens: int, count: int, seed: int, measure: Callable[[str], int], cut: Splitter, haystack: str
) -> Iterator[Item]:
    """Yield `count` samples whose passages together have at most `tokens` tokens.

    measure   tokens of a passage as it stands in the prompt, at least one a word
    haystack  English prose; only the tasks with a text haystack read it

    The passages are as long as fits to within half a percent, or to a piece of the haystack that is not text: a line
    of noise, a needle, a word that is listed three times. Every needle stands whole in a passage. Sample i depends on
    the task, the tokens, the seed and i, and on no other sample. Raises ValueError for an unknown task, a length that
    not even the needles fit, or passages too short for a needle, and BadData for a haystack without words.
    """
    if task not in TASKS:
        raise ValueError(f"{task!r} is no task of RULER's that is built in; there are {', '.join(TASKS)}")
    found = split_sentences(haystack)
    if not found:
        raise InvalidDataset("The haystack holds no words.")
    for number in range(count):
        yield _item(task, tokens, seed, number, measure, cut, found)


def _item(
    task: str, tokens: int, seed: int, number: int, measure: Callable[[str], int], cut: Splitter, found: list[str]
) -> Item:
    place = (Random(f"{task} {tokens} {seed}").random() + number * GOLDEN_RATIO) % 1
    words = take_words(found, int(place * len(found)), tokens + 1)
    for redraw in range(MAX_ATTEMPTS):
        draw = Random(f"{task} {tokens} {seed} {number} {redraw}")
        puzzle = TASKS[task](TaskInputs(draw, words, tokens))
        passages = _passages(puzzle, tokens, measure, cut)
        if passages is None:
            raise ValueError(f"{tokens} tokens are too few for {task}: what it hides does not fit into them")
        if all(any(needle in passage for passage in passages) for needle in puzzle.needles):
            break
    else:
        raise ValueError(f"the passages are too short for {task}: they cut {puzzle.needles[0]!r} or its like")
    return Item(
        id=f"{task}-{tokens}-{seed}-{number}",
        question=puzzle.question,
        passages=passages,
        answers=puzzle.answers,
        group=task,
        metric="recall",
        opening=puzzle.opening,
        max_new_tokens=puzzle.max_new_tokens,
    )


def _passages(puzzle: TaskSample, tokens: int, measure: Callable[[str], int], cut: Splitter) -> tuple[str, ...] | None:
    made: dict[int, list[str]] = {}

    def length(pieces: int) -> int:
        made[pieces] = cut(puzzle.context(pieces))
        return sum(map(measure, made[pieces]))

    uncut = largest_fitting(lambda pieces: measure(puzzle.context(pieces)), tokens)  # cutting costs ten times more
    pieces = largest_fitting(length, tokens, uncut or 1)
    return None if pieces is None else tuple(made[pieces])
