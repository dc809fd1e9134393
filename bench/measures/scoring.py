"""Time of scoring alone, for each score mode in turn, with chunk KV in memory.

Within a request scoring overlaps with assembly and shares the cores with it: see `ttft`. The paper's mode scores each
passage alone with the whole auxiliary model.
"""

import statistics
import time
from argparse import Namespace
from typing import Any

from bench.harness.workload import Workload, open_workload
from bench.tables import progress
from engine.trace import Trace
from engine.types import ScoreMode

# Row values, which other programs read.
NAMES = {ScoreMode.PER_CHUNK: "apart", ScoreMode.JOINT: "joined", ScoreMode.LEARNED: "trained"}
TITLE = "scoring time, relative to the paper's mode"
COLUMNS = {"scoring": "scoring", "length": "length", "scoring_ms": "ms", "of_apart": "of the paper's", "n": "n"}


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length and score mode; medians over the questions, paired ratios."""
    rows = []
    for length in arguments.lengths:
        with open_workload(arguments, length) as work:
            work.warm()
            questions = [measure(work, number) for number in progress(work.numbers, f"{length} tokens")][1:]
        for mode in questions[0]:
            row = {
                "scoring": NAMES[mode],
                "length": length,
                "scoring_ms": statistics.median(times[mode] for times in questions),
                "of_apart": statistics.median(times[mode] / times[ScoreMode.PER_CHUNK] for times in questions),
                "n": len(questions),
            }
            rows.append(row)
    return rows


def measure(work: Workload, number: int) -> dict[ScoreMode, float]:
    """Return the milliseconds of each score mode for question `number`."""
    auxiliary, cache = work.engine.auxiliary, work.engine.cache
    assert auxiliary is not None
    prompt = work.engine.prepare(work.request(number), Trace())
    chunks = cache.gather(prompt.passage_ids, max_path_chunks=1).chunks if auxiliary.cache is cache else None
    times = {}
    for mode in ScoreMode:
        if mode is not ScoreMode.LEARNED or auxiliary.selector is not None:
            began = time.perf_counter()
            auxiliary.score(prompt.standalone_question, prompt.texts, work.engine.template, mode, chunks)
            times[mode] = 1e3 * (time.perf_counter() - began)
    return times
