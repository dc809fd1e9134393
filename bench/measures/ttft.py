"""Time to first token against full prefill, paired by question in one process.

Chunk KV is in memory; everything from the question's arrival to its first token is counted: search, lookup, load,
assembly, scoring, selection, recomputation. The ideal speedup is full prefill's operations over those of the computed
rows: an upper bound without better kernels.
"""

import statistics
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import Any

from bench.bootstrap import median_interval
from bench.harness.variants import Variant, parse_variants
from bench.harness.workload import Workload, open_workload
from bench.tables import progress
from engine.model.sampling import TokenSampler
from engine.strategies import Full, Strategy
from engine.trace import Trace
from engine.types import Placement

TITLE = "time to first token, paired with full prefill"
COLUMNS = {
    "method": "method",
    "ratio": "ratio",
    "realised_ratio": "actual ratio",
    "length": "length",
    "ttft_ms": "TTFT ms",
    "full_ttft_ms": "full ms",
    "speedup": "speedup",
    "speedup_low": "low",
    "speedup_high": "high",
    "floor_speedup": "ideal speedup",
    "scoring_ms": "scoring ms",
    "n": "n",
}
SCORING = ("auxiliary", "question", "full prefill")  # stages in which a method scores tokens
__all__ = ["COLUMNS", "TITLE", "add_arguments", "run"]


@dataclass(frozen=True)
class Sample:
    """One question with one variant."""

    ttft_ms: float
    realised_ratio: float
    operations: float
    context_tokens: int
    scoring_ms: float


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of this measure."""
    parser.set_defaults(methods=["cacheclip", "direct"])


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length, method and ratio; medians over the questions."""
    variants = [variant for variant in parse_variants(arguments.methods, arguments.ratios) if variant.method != "full"]
    rows = []
    for length in arguments.lengths:
        with open_workload(arguments, length) as work:
            full, reused = measure(work, variants, arguments.samples)
        rows += [row(variant, length, full, reused[variant.key]) for variant in variants]
    return rows


def measure(work: Workload, variants: list[Variant], samples: int) -> tuple[list[Sample], dict[str, list[Sample]]]:
    """Ask each question with full prefill and with every variant in turn, after one warm-up of each."""
    work.warm(samples)
    for variant in variants:
        if variant.strategy.placement is Placement.NO_PREFIX:  # has chunk KV of its own
            for number in range(samples + 1):
                first_token(work, variant.strategy, number)
    full, reused = [], {variant.key: [] for variant in variants}  # type: ignore[var-annotated]
    for number in progress(range(samples + 1), f"{work.length} tokens"):
        sample = first_token(work, Full(), number)
        if number:
            full.append(sample)
        for variant in variants:
            sample = first_token(work, variant.strategy, number)
            if number:
                reused[variant.key].append(sample)
    return full, reused


def first_token(work: Workload, strategy: Strategy, number: int) -> Sample:
    """Ask question `number` up to its first token, as the app does."""
    trace = Trace()
    reading = work.engine.prepare(work.request(number), trace)
    ready = work.engine.prefill(reading, strategy, trace)
    work.engine.sampler(reading, trace, TokenSampler()).sample(ready.logits)
    trace.first_token()
    assert trace.ttft_ms is not None
    return Sample(
        trace.ttft_ms,
        ready.actual_ratio,
        ready.flops,
        reading.context_tokens,
        sum(stage.length_ms for stage in trace.stages if stage.name in SCORING),
    )


def row(variant: Variant, length: int, full: list[Sample], reused: list[Sample]) -> dict[str, Any]:
    """Return the JSON row of one variant: medians, and the speedup's 95 % bootstrap interval."""
    speedups = [slow.ttft_ms / fast.ttft_ms for slow, fast in zip(full, reused, strict=True)]
    low, high = median_interval(speedups)
    return {
        "method": variant.method,
        **({} if variant.ratio is None else {"ratio": variant.ratio}),
        "realised_ratio": statistics.fmean(sample.realised_ratio for sample in reused),
        "length": length,
        "context_tokens": statistics.median(sample.context_tokens for sample in reused),
        "ttft_ms": statistics.median(sample.ttft_ms for sample in reused),
        "full_ttft_ms": statistics.median(sample.ttft_ms for sample in full),
        "speedup": statistics.median(speedups),
        "speedup_low": low,
        "speedup_high": high,
        "floor_speedup": statistics.median(a.operations / b.operations for a, b in zip(full, reused, strict=True)),
        "scoring_ms": statistics.median(sample.scoring_ms for sample in reused),
        "n": len(reused),
    }
