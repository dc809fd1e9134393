"""Time to first token against full prefill, paired by question in one process.

Chunk KV is in memory; everything from the question's arrival to its first token is counted: search, lookup, load,
assembly, scoring, selection, recomputation. The ideal speedup is full prefill's operations over those of the computed
rows: an upper bound without better kernels.
"""

import statistics
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from bench.bootstrap import median_interval, medians
from bench.harness.engine import first_token
from bench.harness.runner import parse_variants
from bench.harness.workload import Workload, ask_all
from bench.tables import columns_of
from engine.analysis.variants import Variant
from engine.strategies import Full, Strategy
from engine.trace import Trace
from engine.types import Placement

TITLE = "time to first token, paired with full prefill"
COLUMNS = columns_of(
    "method ratio realised_ratio length ttft_ms full_ttft_ms speedup speedup_low speedup_high floor_speedup "
    "scoring_ms n"
)
SCORING = ("auxiliary", "question", "full prefill")  # stages in which a method scores tokens


def add_arguments(parser: ArgumentParser) -> None:
    """Set the methods that are compared by default."""
    parser.set_defaults(methods=["cacheclip", "direct"])


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length, method and ratio; medians over the questions."""
    variants = [variant for variant in parse_variants(arguments.methods, arguments.ratios) if variant.method != "full"]

    def measure(work: Workload, number: int) -> dict[Variant, dict[str, float]]:
        if number == 0:
            for variant in variants:
                if variant.strategy.placement is Placement.NO_PREFIX:  # has chunk KV of its own
                    for other in work.numbers:
                        ask(work, variant.strategy, other)
        full = ask(work, Full(), number)
        return {variant: _relative(ask(work, variant.strategy, number), full) for variant in variants}

    return [
        row(variant, length, samples)
        for length, by_variant in ask_all(arguments, measure)
        for variant, samples in by_variant.items()
    ]


def ask(work: Workload, strategy: Strategy, number: int) -> dict[str, float]:
    """Ask question `number` up to its first token, as the app does."""
    trace = Trace()
    prompt = work.engine.prepare(work.request(number), trace)
    result, ttft_ms = first_token(work.engine, prompt, strategy, trace)
    return {
        "realised_ratio": result.actual_ratio,
        "context_tokens": prompt.context_tokens,
        "operations": result.flops,
        "ttft_ms": ttft_ms,
        "scoring_ms": sum(stage.length_ms for stage in trace.stages if stage.name in SCORING),
    }


def _relative(sample: dict[str, float], full: dict[str, float]) -> dict[str, float]:
    return sample | {
        "full_ttft_ms": full["ttft_ms"],
        "speedup": full["ttft_ms"] / sample["ttft_ms"],
        "floor_speedup": full["operations"] / sample["operations"],
    }


def row(variant: Variant, length: int, samples: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Return the JSON row of one variant: medians, and the speedup's 95 % bootstrap interval."""
    low, high = median_interval([sample["speedup"] for sample in samples])
    values = medians(samples) | {"speedup_low": low, "speedup_high": high}
    values["realised_ratio"] = statistics.fmean(sample["realised_ratio"] for sample in samples)
    del values["operations"]
    ratio = {} if variant.ratio is None else {"ratio": variant.ratio}
    return {"method": variant.method, **ratio, "length": length, **values}
