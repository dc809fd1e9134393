"""Adaptive recomputation on a mix of four sets: time to first token and quality, paired with full prefill.

The sets are FILE, with questions about single paragraphs (SQuAD), the tasks `split` and `hops` made of it
(bench/multi_passage), and RULER's needles with several values: --num-samples questions of each. Chunk KV is in memory,
and each method is timed by itself up to the first token, without search. TTFT is a mean, the speedup a ratio of means.
The task `mix` stands for all sets together.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from bench.arguments import positive_int
from bench.data.item import Item
from bench.harness.engine import engine_of, make_splitter, make_token_counter
from bench.harness.runner import open_samples, requested_variants, rows_of, run_samples
from bench.measures.quality import read_items, split_passages
from bench.measures.ruler import RESERVED_TOKENS
from bench.ruler.generate import generate
from bench.ruler.haystack import read_haystack
from bench.tables import columns_of

TITLE = "adaptive recomputation on a mix of sets, paired with full prefill"
COLUMNS = columns_of(
    "task method ratio realised_ratio length ttft_ms full_ttft_ms speedup speedup_low speedup_high quality rq "
    "answer_kl answer_top1 left_out n"
)
TASKS = (None, "split", "hops")  # of FILE
RULER_TASK = "niah_multivalue"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of this measure."""
    add = parser.add_argument
    add("file", metavar="FILE", help="a data file, or the name of a data set on the hub")
    add("--passages", type=positive_int, default=40, help="paragraphs of FILE for a question")
    add("--haystack", type=Path, help="a text file for RULER's task (default: our sample documents)")
    size = "maximum tokens per passage"
    add("--chunk-size", "--chunk", dest="chunk", type=positive_int, default=512, help=size)
    methods = ["direct", "cacheclip-trained", "cacheclip-adaptive"]
    parser.set_defaults(lengths=[8192], samples=25, methods=methods, ratios=[0.05, 0.2], absent=False)


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length, task, method and ratio."""
    variants = requested_variants(arguments)
    makers = [read_items(arguments.file, task, arguments) for task in TASKS]  # before the models, to report bad files
    haystack = read_haystack(arguments.haystack)
    engine = engine_of(arguments)
    finished = open_samples(arguments, "adaptive", passages=arguments.passages)
    count_tokens, split = make_token_counter(engine), make_splitter(engine, arguments.chunk)
    sets: list[list[Item]] = [split_passages(make(count_tokens), split) for make in makers]
    rows = []
    for length in arguments.lengths:
        tokens = min(length, engine.max_tokens - RESERVED_TOKENS)
        needles = generate(RULER_TASK, tokens, arguments.samples, arguments.seed, count_tokens, split, haystack)
        everything = []
        for items in (*sets, list(needles)):
            task = items[0].group
            samples = run_samples(engine, items, length, variants, finished, f"{task} {length}", timed=True)
            rows += rows_of(task, length, variants, finished, samples)
            everything += samples
        rows += rows_of("mix", length, variants, finished, everything)
    return rows
