"""RULER's tasks (arXiv:2404.06654) from our own generators: needles in a haystack, variable tracking, common words.

`--context-lengths` are context tokens, reduced if question and answer would not fit after them. The haystack is a text
file, or our sample documents. The score is RULER's: the share of the references found in the answer.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from bench.arguments import positive_int
from bench.errors import InvalidArgument
from bench.harness.engine import engine_of, make_splitter, make_token_counter
from bench.harness.runner import COLUMNS, open_samples, requested_variants, run_items
from bench.ruler.generate import TASKS, generate
from bench.ruler.haystack import read_haystack

TITLE = "RULER's tasks, paired with full prefill"
RESERVED_TOKENS = 512  # for question and answer if the context would fill the whole model context
__all__ = ["COLUMNS", "TITLE", "add_arguments", "run"]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of this measure."""
    add = parser.add_argument
    add("--tasks", nargs="+", default=list(TASKS), metavar="TASK", help=", ".join(TASKS))
    add("--haystack", type=Path, help="a text file (default: our sample documents)")
    size = "maximum tokens per passage"
    add("--chunk-size", "--chunk", dest="chunk", type=positive_int, default=256, help=size)
    parser.set_defaults(lengths=[1024], samples=50)


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length, task, method and ratio."""
    variants = requested_variants(arguments)
    if unknown := [task for task in arguments.tasks if task not in TASKS]:
        raise InvalidArgument(f"The task {unknown[0]!r} is not one of {', '.join(TASKS)}.")
    haystack = read_haystack(arguments.haystack)
    engine = engine_of(arguments)
    finished = open_samples(arguments, "ruler")
    if too_long := [length for length in arguments.lengths if length > engine.max_tokens]:
        message = f"The model's context is {engine.max_tokens:,} tokens; --context-lengths {too_long[0]} is more."
        raise InvalidArgument(message)
    count_tokens, split = make_token_counter(engine), make_splitter(engine, arguments.chunk)
    rows = []
    for length in arguments.lengths:
        tokens = min(length, engine.max_tokens - RESERVED_TOKENS)
        for task in arguments.tasks:
            items = list(generate(task, tokens, arguments.samples, arguments.seed, count_tokens, split, haystack))
            rows += run_items(engine, items, length, variants, finished, f"{task} {length}")
    return rows
