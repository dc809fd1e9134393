"""Time of scoring alone, for each score mode in turn, with chunk KV in memory.

Within a request scoring overlaps with assembly and shares the cores with it: see `ttft`. The paper's mode scores each
passage alone with the whole auxiliary model.
"""

import statistics
import time
from argparse import ArgumentParser, Namespace
from typing import Any

from bench.harness.workload import Workload, open_workload
from bench.tables import progress
from engine.trace import Trace
from engine.types import ScoreMode

# Row values, which other programs read.
NAMES = {ScoreMode.PER_CHUNK: "apart", ScoreMode.JOINT: "joined", ScoreMode.LEARNED: "trained"}
TITLE = "scoring time, relative to the paper's mode"
COLUMNS = {"scoring": "scoring", "length": "length", "scoring_ms": "ms", "of_apart": "of the paper's", "n": "n"}


def add_arguments(parser: ArgumentParser) -> None:
    """Add no arguments."""


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length and score mode; medians over the questions, paired ratios."""
    rows = []
    for length in arguments.lengths:
        with open_workload(arguments, length) as work:
            times = measure(work, arguments.samples)
        for mode, mode_times in times.items():
            ratios = [one / apart for one, apart in zip(mode_times, times[ScoreMode.PER_CHUNK], strict=True)]
            rows.append(
                {
                    "scoring": NAMES[mode],
                    "length": length,
                    "scoring_ms": statistics.median(mode_times),
                    "of_apart": statistics.median(ratios),
                    "n": len(mode_times),
                }
            )
    return rows


def measure(work: Workload, samples: int) -> dict[ScoreMode, list[float]]:
    """Return the milliseconds of each score mode for each question, after one warm-up question."""
    auxiliary, cache = work.engine.auxiliary, work.engine.cache
    assert auxiliary is not None
    modes = [mode for mode in ScoreMode if mode is not ScoreMode.LEARNED or auxiliary.selector is not None]
    times: dict[ScoreMode, list[float]] = {mode: [] for mode in modes}
    work.warm(samples)
    for number in progress(range(samples + 1), f"{work.length} tokens"):
        reading = work.engine.prepare(work.request(number), Trace())
        shared = auxiliary.cache is cache
        chunks = cache.gather([chunk.ids for chunk in reading.passages], max_path_chunks=1).chunks if shared else None
        for mode in modes:
            began = time.perf_counter()
            auxiliary.score(reading.standalone_question, reading.texts, work.engine.template, mode, chunks)
            if number:
                times[mode].append(1e3 * (time.perf_counter() - began))
    return times
