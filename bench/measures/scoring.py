"""What it takes to find out which tokens to recompute, with nothing else running: each way of scoring in turn.

On a question's way scoring runs beside assembling, and both share the cores: `ttft` shows what it takes there. Chunk
KV is warm in memory. The paper's way reads each passage apart with the whole auxiliary model.
"""

import statistics
import time
from argparse import ArgumentParser, Namespace
from typing import Any

from bench.harness.workload import Workload, open_workload
from bench.tables import progress
from engine.trace import Trace
from engine.types import ScoreMode

# In rows, which other programs read.
NAMES = {ScoreMode.PER_CHUNK: "apart", ScoreMode.JOINT: "joined", ScoreMode.LEARNED: "trained"}
TITLE = "scoring alone, against the paper's way"
COLUMNS = {"scoring": "scoring", "length": "length", "scoring_ms": "ms", "of_apart": "of the paper's", "n": "n"}


def add_arguments(parser: ArgumentParser) -> None:
    """Take no arguments but those of every measure."""


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length and way of scoring; medians over the questions, ratios paired."""
    rows = []
    for length in arguments.lengths:
        with open_workload(arguments, length) as work:
            times = measure(work, arguments.samples)
        for scoring, mine in times.items():
            shares = [one / apart for one, apart in zip(mine, times[ScoreMode.PER_CHUNK], strict=True)]
            rows.append(
                {
                    "scoring": NAMES[scoring],
                    "length": length,
                    "scoring_ms": statistics.median(mine),
                    "of_apart": statistics.median(shares),
                    "n": len(mine),
                }
            )
    return rows


def measure(work: Workload, samples: int) -> dict[ScoreMode, list[float]]:
    """Return the milliseconds of each way of scoring for each question, after one question to warm up."""
    auxiliary, cache = work.engine.auxiliary, work.engine.cache
    assert auxiliary is not None
    ways = [scoring for scoring in ScoreMode if scoring is not ScoreMode.LEARNED or auxiliary.selector is not None]
    times: dict[ScoreMode, list[float]] = {scoring: [] for scoring in ways}
    work.warm(samples)
    for number in progress(range(samples + 1), f"{work.length} tokens"):
        reading = work.engine.prepare(work.request(number), Trace())
        shared = auxiliary.cache is cache
        chunks = cache.gather([chunk.ids for chunk in reading.passages], max_path_chunks=1).chunks if shared else None
        for scoring in ways:
            began = time.perf_counter()
            auxiliary.score(reading.standalone_question, reading.texts, work.engine.prompt, scoring, chunks)
            if number:
                times[scoring].append(1e3 * (time.perf_counter() - began))
    return times
