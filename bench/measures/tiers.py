"""TTFT by source of the chunk KV: memory, disk (as after a restart), or recomputation. Paired by question."""

import statistics
from argparse import Namespace
from typing import Any

from bench.harness.engine import first_token
from bench.harness.workload import Workload, open_workload
from bench.tables import progress
from engine.strategies import Direct
from engine.trace import Trace

TITLE = "loading chunk KV against recomputing it"
COLUMNS = {"tier": "tier", "length": "length", "load_ms": "load ms", "ttft_ms": "TTFT ms", "n": "n"}
TIERS = ("computed", "disk", "host")  # in the order measured


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length and tier; medians over the questions."""
    rows = []
    for length in arguments.lengths:
        with open_workload(arguments, length) as work:
            numbers = progress(work.numbers, f"{length} tokens")
            questions = [{tier: measure(work, tier, number) for tier in TIERS} for number in numbers][1:]
        rows += [
            {
                "tier": tier,
                "length": length,
                "load_ms": statistics.median(times[tier][0] for times in questions),
                "ttft_ms": statistics.median(times[tier][1] for times in questions),
                "n": len(questions),
            }
            for tier in reversed(TIERS)
        ]
    return rows


def measure(work: Workload, tier: str, number: int) -> tuple[float, float]:
    """Return load time and TTFT in ms of direct reuse with every chunk in `tier` and in no faster one."""
    cache, host = work.engine.cache, 0
    request = work.request(number)
    prompt = work.engine.prepare(request, Trace())
    if tier == "computed":
        for ids in prompt.passage_ids:
            cache.delete(ids)
    elif tier == "disk":
        cache.flush()
        work.tiers.drain()
        cache.tree.clear(host)
    trace = Trace()
    prompt = work.engine.prepare(request, trace)
    result, ttft_ms = first_token(work.engine, prompt, Direct(), trace)
    if set(result.tiers) != {tier}:
        raise ValueError(f"expected every passage from {tier!r}, got {sorted(set(result.tiers))}")
    (load_ms,) = [stage.length_ms for stage in trace.stages if stage.name == "load"]
    return load_ms, ttft_ms
