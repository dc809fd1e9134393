"""TTFT by source of the chunk KV: memory, disk (as after a restart), or recomputation. Paired by question."""

from argparse import Namespace
from typing import Any

from bench.bootstrap import medians
from bench.harness.engine import first_token
from bench.harness.workload import Workload, ask_all
from engine.strategies import Direct
from engine.trace import Trace

TITLE = "loading chunk KV against recomputing it"
COLUMNS = {"tier": "tier", "length": "length", "load_ms": "load ms", "ttft_ms": "TTFT ms", "n": "n"}


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length and tier; medians over the questions."""
    return [
        {"tier": tier, "length": length, **medians(by_tier[tier])}
        for length, by_tier in ask_all(arguments, measure)
        for tier in ("host", "disk", "computed")
    ]


def measure(work: Workload, number: int) -> dict[str, dict[str, float]]:
    """Return load time and TTFT of direct reuse with every chunk in each tier in turn, and in no faster one."""
    cache = work.engine.cache
    results = {}
    for tier in ("computed", "disk", "host"):
        prompt = work.engine.prepare(work.request(number), Trace())
        if tier == "computed":
            for ids in prompt.passage_ids:
                cache.delete(ids)
        elif tier == "disk":
            cache.flush()
            work.tiers.drain()
            cache.tree.clear(0)  # the memory tier
        trace = Trace()
        prompt = work.engine.prepare(work.request(number), trace)
        result, ttft_ms = first_token(work.engine, prompt, Direct(), trace)
        if set(result.tiers) != {tier}:
            raise ValueError(f"expected every passage from {tier!r}, got {sorted(set(result.tiers))}")
        (load_ms,) = [stage.length_ms for stage in trace.stages if stage.name == "load"]
        results[tier] = {"load_ms": load_ms, "ttft_ms": ttft_ms}
    return results
