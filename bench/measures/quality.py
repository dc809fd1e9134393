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
from bench.data.item import Item, Splitter
from bench.data.sources import read_rows as rows_in
from bench.harness.engine import make_splitter, model_config, open_engine
from bench.harness.runner import COLUMNS, group_samples, make_rows, open_samples, requested_variants, run_items
from engine.engine import Engine

TITLE = "quality on data sets, paired with full prefill"
__all__ = ["COLUMNS", "TITLE", "add_arguments", "run"]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of this measure."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="data files, or names of data sets on the hub")
    parser.add_argument(
        "--passages", type=positive_int, default=8, help="SQuAD: number of paragraphs, the gold one included"
    )
    parser.add_argument(
        "--absent",
        action="store_true",
        help="SQuAD: leave out the gold paragraph; the correct answer is then that there is none",
    )
    parser.add_argument(
        "--chunk-size",
        "--chunk",
        dest="chunk",
        type=positive_int,
        default=512,
        help="maximum tokens per passage; longer ones are split",
    )
    parser.set_defaults(lengths=[8192], samples=50)


def open_engine_and_items(arguments: Namespace) -> tuple[Engine, list[list[Item]]]:
    """Return the engine and the items of each file; all files are read before anything is measured.

    Passages longer than a chunk are split as the library would split them.
    """
    for file in arguments.files:
        rows_in(file)  # report a missing file before loading the models
    engine = open_engine(model_config(arguments), arguments.kv_bits, arguments.grounding)
    split = make_splitter(engine, arguments.chunk)
    return engine, [_items(file, arguments, split) for file in arguments.files]


def _items(file: str, arguments: Namespace, split: Splitter) -> list[Item]:
    items = load_items(file, arguments.passages, split, arguments.seed, arguments.samples, arguments.absent)
    return [replace(item, passages=tuple(part for text in item.passages for part in split(text))) for item in items]


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per file, length, method and ratio."""
    variants = requested_variants(arguments)
    engine, files = open_engine_and_items(arguments)
    finished = open_samples(arguments, "quality", passages=arguments.passages)
    rows = []
    for items in files:
        for length in arguments.lengths:
            names = run_items(engine, [(item, length) for item in items], variants, finished, items[0].group)
            for group, samples in group_samples(names, finished, lambda name: name.split("/")[0]).items():
                rows += make_rows(samples, variants, group, length, finished.settings)
    return rows
