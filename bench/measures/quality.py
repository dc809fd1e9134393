"""Answer quality on data sets: every question through every method, against full prefill on the same tokens.

FILES are JSON or JSON lines in the published formats of SQuAD, HotpotQA and LongBench, or rows with `question`,
`answers` and `passages` or `context`; or names of Hugging Face data sets. Finished samples are kept next to --json; the
same command resumes.
"""

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import Any

from bench.arguments import positive_int
from bench.data.dataset import load_items
from bench.data.item import Item
from bench.harness.engine import make_splitter, model_config, open_engine
from bench.harness.runner import COLUMNS, open_samples, requested_variants, run_items
from engine.engine import Engine

TITLE = "quality on data sets, paired with full prefill"
__all__ = ["COLUMNS", "TITLE", "add_arguments", "run"]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of this measure."""
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="data files, or names of data sets on the hub")
    add("--passages", type=positive_int, default=8, help="SQuAD: number of paragraphs, the gold one included")
    absent = "SQuAD: leave out the gold paragraph; the correct answer is then that there is none"
    add("--absent", action="store_true", help=absent)
    size = "maximum tokens per passage; longer ones are split"
    add("--chunk-size", "--chunk", dest="chunk", type=positive_int, default=512, help=size)
    parser.set_defaults(lengths=[8192], samples=50)


def open_engine_and_items(arguments: Namespace) -> tuple[Engine, list[list[Item]]]:
    """Return the engine and the items of each file, with long passages split as the library would split them."""
    files = [  # read before the models are loaded, to report bad files soon
        load_items(file, arguments.passages, arguments.seed, arguments.samples, arguments.absent)
        for file in arguments.files
    ]
    engine = open_engine(model_config(arguments), arguments.kv_bits, arguments.grounding)
    split = make_splitter(engine, arguments.chunk)

    def split_passages(item: Item) -> Item:
        return replace(item, passages=tuple(part for passage in item.passages for part in split(passage)))

    return engine, [list(map(split_passages, items)) for items in files]


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
