"""The tasks by name, and the check of a file for a task."""

from collections.abc import Callable, Iterator
from functools import partial

from bench.data.item import Item, TokenCounter
from bench.errors import InvalidArgument, InvalidDataset
from bench.multi_passage.defined import defined_question
from bench.multi_passage.facts import fact_items
from bench.multi_passage.hops import hop_question
from bench.multi_passage.source import MAX_PARAGRAPH_CHARS, TaskSource, read_source
from bench.multi_passage.split import split_items
from bench.multi_passage.table import table_question

Task = Callable[[TaskSource, TokenCounter], Iterator[Item]]  # item i does not depend on how many are taken
TASKS: dict[str, Task] = {
    "split": split_items,
    "hops": partial(fact_items, "hops", hop_question),
    "table": partial(fact_items, "table", table_question),
    "defined": partial(fact_items, "defined", defined_question),
}
MIN_PASSAGES = 2


def open_source(task: str, file: str, num_passages: int, seed: int) -> TaskSource:
    """Return a task's source, checked. Raises InvalidArgument, InvalidDataset and DatasetsMissing."""
    if task not in TASKS:
        raise InvalidArgument(f"The task {task!r} is not one of {', '.join(TASKS)}.")
    if num_passages < MIN_PASSAGES:
        raise InvalidArgument(f"--task {task} needs --passages of at least {MIN_PASSAGES}, not {num_passages}.")
    source = read_source(file, num_passages, seed)
    if not source.questions:
        raise InvalidDataset(f"{file} has no question with an answer.")
    has_own_passages = not source.questions[0].paragraph
    if len(source.paragraphs) < num_passages and not (task == "split" and has_own_passages):
        usable = f"{len(source.paragraphs)} usable paragraphs (of at most {MAX_PARAGRAPH_CHARS:,} characters)"
        raise InvalidArgument(f"{file} has {usable}. Give fewer --passages than {num_passages}, or another file.")
    return source
