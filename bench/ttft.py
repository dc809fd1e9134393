"""Time to first token against full prefill, paired question by question in one process.

Chunk KV is warm in memory; everything from the question's arrival to its first token counts: search, lookup, load,
assembly, the auxiliary model, selection, recomputation. The floor is full prefill's operations over the operations of
the rows that were computed: no method can be faster without better kernels.
"""

import statistics
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import torch

from bench.intervals import median_interval
from bench.report import progress
from bench.workload import Workload, workload
from engine.answer import Request
from engine.pipeline import Engine, Prefilled
from engine.request import Reading, check, strategy_of
from engine.trace import Trace

TITLE = "time to first token, paired with full prefill"
COLUMNS = {
    "method": "method",
    "ratio": "ratio",
    "realised_ratio": "realised",
    "length": "length",
    "ttft_ms": "TTFT ms",
    "full_ttft_ms": "full ms",
    "speedup": "speedup",
    "speedup_low": "low",
    "speedup_high": "high",
    "floor_speedup": "floor",
    "n": "n",
}
NO_RATIO = ("direct", "full")


@dataclass(frozen=True)
class Sample:
    """One question through one arm."""

    ttft_ms: float
    realised_ratio: float
    operations: float
    context_tokens: int


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length, method and ratio; medians over the questions."""
    arms = [(m, r) for m in arguments.methods for r in ([0.0] if m in NO_RATIO else arguments.ratios) if m != "full"]
    rows = []
    for length in arguments.lengths:
        with workload(arguments, length) as work:
            full, reused = measure(work, arms, arguments.samples)
        rows += [row(arm, length, full, reused[arm]) for arm in arms]
    return rows


def measure(
    work: Workload, arms: list[tuple[str, float]], samples: int
) -> tuple[list[Sample], dict[tuple[str, float], list[Sample]]]:
    """Ask each question with full prefill and with every arm, one after the other, after one warm-up of each."""
    full, reused = [], {arm: [] for arm in arms}  # type: ignore[var-annotated]
    for number in progress(range(samples + 1), f"{work.length} tokens"):
        sample = first_token(work, "full", 1.0, number)
        if number:
            full.append(sample)
        for arm in arms:
            sample = first_token(work, *arm, number)
            if number:
                reused[arm].append(sample)
    return full, reused


def first_token(work: Workload, method: str, ratio: float, number: int) -> Sample:
    """Ask question `number` up to its first token, the way the page does."""
    request = Request(work.questions[number % 64], method, ratio, work.passages, max_new_tokens=64)
    check(request)
    trace = Trace()
    reading = work.engine.find(request, trace)
    ready = work.engine.prefill(reading, strategy_of(request), trace)
    int(ready.logits.argmax())
    trace.first_token()
    start = len(work.engine.prompt.prefix)
    recomputed = int(((ready.plan.rows >= start) & (ready.plan.rows < start + reading.context_tokens)).sum())
    assert trace.ttft_ms is not None
    return Sample(
        trace.ttft_ms,
        recomputed / reading.context_tokens,
        operations(work.engine, reading, ready),
        reading.context_tokens,
    )


def operations(engine: Engine, reading: Reading, ready: Prefilled) -> float:
    """Return the floating-point operations of the rows that the primary computed."""
    end = len(engine.prompt.prefix) + reading.context_tokens
    rows = torch.cat((ready.plan.rows, torch.arange(end, end + len(reading.question))))
    return engine.cache.decoder.spec.operations(len(rows), int((rows + 1).sum()))


def row(arm: tuple[str, float], length: int, full: list[Sample], reused: list[Sample]) -> dict[str, Any]:
    """Return the JSON row of one arm: medians, and the speedup's 95 % bootstrap interval."""
    speedups = [slow.ttft_ms / fast.ttft_ms for slow, fast in zip(full, reused, strict=True)]
    low, high = median_interval(speedups)
    return {
        "method": arm[0],
        "ratio": arm[1],
        "realised_ratio": statistics.fmean(sample.realised_ratio for sample in reused),
        "length": length,
        "context_tokens": statistics.median(sample.context_tokens for sample in reused),
        "ttft_ms": statistics.median(sample.ttft_ms for sample in reused),
        "full_ttft_ms": statistics.median(sample.ttft_ms for sample in full),
        "speedup": statistics.median(speedups),
        "speedup_low": low,
        "speedup_high": high,
        "floor_speedup": statistics.median(a.operations / b.operations for a, b in zip(full, reused, strict=True)),
        "n": len(reused),
    }
