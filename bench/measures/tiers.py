"""TTFT by source of the chunk KV: memory, disk (as after a restart), or recomputation. Paired by question."""

import statistics
from argparse import ArgumentParser, Namespace
from typing import Any

from bench.harness.workload import Workload, open_workload
from bench.tables import progress
from engine.model.sampling import TokenSampler
from engine.prompt.validate import build_strategy
from engine.trace import Trace

TITLE = "loading chunk KV against recomputing it"
COLUMNS = {"tier": "tier", "length": "length", "load_ms": "load ms", "ttft_ms": "TTFT ms", "n": "n"}
TIERS = ("host", "disk", "computed")


def add_arguments(parser: ArgumentParser) -> None:
    """Add no arguments."""


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length and tier; medians over the questions."""
    rows = []
    for length in arguments.lengths:
        with open_workload(arguments, length) as work:
            samples = {tier: [] for tier in TIERS}  # type: ignore[var-annotated]
            for number in progress(range(arguments.samples + 1), f"{length} tokens"):
                for tier in ("computed", "disk", "host"):
                    sample = first_token(work, tier, number)
                    if number:
                        samples[tier].append(sample)
        rows += [
            {
                "tier": tier,
                "length": length,
                "load_ms": statistics.median(load for load, _ in samples[tier]),
                "ttft_ms": statistics.median(ttft for _, ttft in samples[tier]),
                "n": len(samples[tier]),
            }
            for tier in TIERS
        ]
    return rows


def first_token(work: Workload, tier: str, number: int) -> tuple[float, float]:
    """Return load time and TTFT in ms of direct reuse with every chunk in `tier` and in no faster one."""
    request = work.request(number, "direct", 0.0)
    cache, host = work.engine.cache, 0
    reading = work.engine.prepare(request, Trace())
    if tier == "computed":
        for passage in reading.passages:
            cache.delete(passage.ids)
    elif tier == "disk":
        cache.flush()
        work.tiers.drain()
        cache.tree.clear(host)
    trace = Trace()
    reading = work.engine.prepare(request, trace)
    ready = work.engine.prefill(reading, build_strategy(request), trace)
    work.engine.sampler(reading, trace, TokenSampler()).sample(ready.logits)
    trace.first_token()
    if set(ready.tiers) != {tier}:
        raise ValueError(f"expected every passage from {tier!r}, got {sorted(set(ready.tiers))}")
    (load,) = [stage.length_ms for stage in trace.stages if stage.name == "load"]
    assert trace.ttft_ms is not None
    return load, trace.ttft_ms
