"""Time of scoring alone, for each score mode in turn, with chunk KV in memory.

Within a request scoring overlaps with assembly and shares the cores with it: see `ttft`. The paper's mode scores each
passage alone with the whole auxiliary model.
"""

import time
from argparse import Namespace
from typing import Any

from bench.bootstrap import medians
from bench.harness.workload import Workload, ask_all
from engine.trace import Trace
from engine.types import ScoreMode

# Row values, which other programs read; the paper's first.
NAMES = {ScoreMode.PER_CHUNK: "apart", ScoreMode.JOINT: "joined", ScoreMode.LEARNED: "trained"}
TITLE = "scoring time, relative to the paper's mode"
COLUMNS = {"scoring": "scoring", "length": "length", "scoring_ms": "ms", "of_apart": "of the paper's", "n": "n"}


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length and score mode; medians over the questions, paired ratios."""
    return [
        {"scoring": name, "length": length, **medians(samples)}
        for length, by_mode in ask_all(arguments, measure)
        for name, samples in by_mode.items()
    ]


def measure(work: Workload, number: int) -> dict[str, dict[str, float]]:
    """Return the time of each score mode for question `number`."""
    auxiliary, cache = work.engine.auxiliary, work.engine.cache
    prompt = work.engine.prepare(work.request(number), Trace())
    chunks = cache.gather(prompt.passage_ids, max_path_chunks=1).chunks if auxiliary.cache is cache else None
    times_ms = {}
    for mode, name in NAMES.items():
        if mode is not ScoreMode.LEARNED or auxiliary.selector is not None:
            began = time.perf_counter()
            auxiliary.score(prompt.standalone_question, prompt.texts, work.engine.template, mode, chunks)
            times_ms[name] = 1e3 * (time.perf_counter() - began)
    return {name: {"scoring_ms": ms, "of_apart": ms / times_ms["apart"]} for name, ms in times_ms.items()}
