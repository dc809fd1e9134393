"""Answer quality on data sets: every question through every method, against full prefill on the same tokens.

FILES are JSON or JSON lines in the published formats of SQuAD, HotpotQA and LongBench, or rows with `question`,
`answers` and `passages` or `context`; or names of Hugging Face data sets. Finished samples are kept next to --json; the
same command resumes.

--task makes questions that need more than one passage (bench/multi_passage): `split` cuts all passages of a question
into parts of at most 100 tokens and shuffles them; `hops`, `table` and `defined` hide invented facts in --passages
paragraphs of FILE. Passages dropped to fit --context-lengths may hold a fact: `left_out` counts these questions.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

from bench.arguments import positive_int
from bench.data.dataset import load_items
from bench.data.item import Item, Splitter, TokenCounter
from bench.errors import InvalidArgument, InvalidDataset
from bench.harness.engine import engine_of, make_splitter, make_token_counter
from bench.harness.runner import COLUMNS, open_samples, requested_variants, run_items
from bench.multi_passage.tasks import TASKS, open_source
from engine.engine import Engine

TITLE = "quality on data sets, paired with full prefill"
__all__ = ["COLUMNS", "TITLE", "add_arguments", "run"]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of this measure."""
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="data files, or names of data sets on the hub")
    add("--passages", type=positive_int, default=8, help="SQuAD and --task: number of paragraphs")
    absent = "SQuAD: leave out the gold paragraph; the correct answer is then that there is none"
    add("--absent", action="store_true", help=absent)
    add("--task", metavar="TASK", help=f"questions that need more than one passage: {', '.join(TASKS)}")
    size = "maximum tokens per passage; longer ones are split"
    add("--chunk-size", "--chunk", dest="chunk", type=positive_int, default=512, help=size)
    parser.set_defaults(lengths=[8192], samples=50)


def open_engine_and_items(arguments: Namespace) -> tuple[Engine, list[list[Item]]]:
    """Return the engine and the items of each file, with long passages split as the library would split them."""
    files = [read_items(file, arguments.task, arguments) for file in arguments.files]  # before the models: bad files
    engine = engine_of(arguments)
    count_tokens, split = make_token_counter(engine), make_splitter(engine, arguments.chunk)
    return engine, [split_passages(make(count_tokens), split) for make in files]


def split_passages(items: Iterable[Item], split: Splitter) -> list[Item]:
    """Return the items with long passages split."""
    return [
        replace(item, passages=tuple(part for passage in item.passages for part in split(passage))) for item in items
    ]


def read_items(file: str, task: str | None, arguments: Namespace) -> Callable[[TokenCounter], list[Item]]:
    """Return a function that returns a file's items, of a task or as they are.

    Raises InvalidArgument, InvalidDataset and DatasetsMissing.
    """
    if task is None:
        items = load_items(file, arguments.passages, arguments.seed, arguments.samples, arguments.absent)
        return lambda count_tokens: items
    if arguments.absent:
        raise InvalidArgument("--absent does not go with --task: leave out one of them.")
    source = open_source(task, file, arguments.passages, arguments.seed)

    def make(count_tokens: TokenCounter) -> list[Item]:
        items = list(islice(TASKS[task](source, count_tokens), arguments.samples))
        if not items:
            raise InvalidDataset(f"{file} has no question whose answer fits into a passage of {task}.")
        return items

    return make


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per file, length, method and ratio."""
    variants = requested_variants(arguments)
    engine, files = open_engine_and_items(arguments)
    finished = open_samples(arguments, "quality", passages=arguments.passages)
    rows = []
    for items in files:
        for length in arguments.lengths:
            rows += run_items(engine, items, length, variants, finished, items[0].group)
    return rows
