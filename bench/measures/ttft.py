"""Time to first token against full prefill, paired by question in one process.

Chunk KV is in memory; everything from the question's arrival to its first token is counted: search, lookup, load,
assembly, scoring, selection, recomputation. The ideal speedup is full prefill's operations over those of the computed
rows: an upper bound without better kernels.
"""

import statistics
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.bootstrap import median_interval
from bench.harness.engine import first_token
from bench.harness.variants import Variant, parse_variants
from bench.harness.workload import Workload, open_workload
from bench.tables import progress
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


@dataclass(frozen=True)
class Sample:
    """One question with one variant."""

    ttft_ms: float
    actual_ratio: float
    operations: float
    context_tokens: int
    scoring_ms: float


def add_arguments(parser: ArgumentParser) -> None:
    """Set the methods that are compared by default."""
    parser.set_defaults(methods=["cacheclip", "direct"])


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length, method and ratio; medians over the questions."""
    variants = [variant for variant in parse_variants(arguments.methods, arguments.ratios) if variant.method != "full"]
    strategies = [Full(), *(variant.strategy for variant in variants)]
    rows = []
    for length in arguments.lengths:
        with open_workload(arguments, length) as work:
            work.warm()
            for strategy in strategies:
                if strategy.placement is Placement.NO_PREFIX:  # has chunk KV of its own
                    for number in work.numbers:
                        measure(work, strategy, number)
            numbers = progress(work.numbers, f"{length} tokens")
            questions = [[measure(work, strategy, number) for strategy in strategies] for number in numbers]
        full, *reused = zip(*questions[1:], strict=True)
        rows += [row(variant, length, full, samples) for variant, samples in zip(variants, reused, strict=True)]
    return rows


def measure(work: Workload, strategy: Strategy, number: int) -> Sample:
    """Ask question `number` up to its first token, as the app does."""
    trace = Trace()
    prompt = work.engine.prepare(work.request(number), trace)
    result, ttft_ms = first_token(work.engine, prompt, strategy, trace)
    scoring_ms = sum(stage.length_ms for stage in trace.stages if stage.name in SCORING)
    return Sample(ttft_ms, result.actual_ratio, result.flops, prompt.context_tokens, scoring_ms)


def row(variant: Variant, length: int, full: Sequence[Sample], reused: Sequence[Sample]) -> dict[str, Any]:
    """Return the JSON row of one variant: medians, and the speedup's 95 % bootstrap interval."""
    speedups = [slow.ttft_ms / fast.ttft_ms for slow, fast in zip(full, reused, strict=True)]
    low, high = median_interval(speedups)
    return {
        "method": variant.method,
        **({} if variant.ratio is None else {"ratio": variant.ratio}),
        "realised_ratio": statistics.fmean(sample.actual_ratio for sample in reused),
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
