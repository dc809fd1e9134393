"""Speculative prefill with a slow last search stage on the real engine: TTFT with and without, same answers or not."""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from bench.harness.workload import Workload
from bench.tables import progress
from engine.engine import Engine
from engine.scheduler.speculation import SpeculationConfig
from store.types import Hit

SPECULATIVE = SpeculationConfig(20.0)
PLAIN = SpeculationConfig(1e12)


def delay_last_stage(engine: Engine, extra_ms: float) -> None:
    """Delay the last search stage, as by a cross-encoder; the hits stay the same."""
    search = engine.finder.retrieve_stages

    def slow_search(question: str, top_k: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        *_, hits = search(question, top_k, documents)
        yield hits
        time.sleep(extra_ms / 1e3)
        yield hits

    engine.finder.retrieve_stages = slow_search  # type: ignore[method-assign]


def compare_speculation(work: Workload, extra_ms: float) -> dict[str, Any]:
    """Return a row: each question is asked without speculation and with it; medians in milliseconds."""
    delay_last_stage(work.engine, extra_ms)
    plain_ms, speculative_ms, same = list[float](), list[float](), list[bool]()
    for number in progress(work.numbers, f"{extra_ms:g} ms last stage"):
        request = replace(work.request(number), method="full", max_new_tokens=8)
        answers = []
        for config, ttfts_ms in ((PLAIN, plain_ms), (SPECULATIVE, speculative_ms)):
            work.engine.speculator.config = config
            *_, answer = work.engine.ask(request)
            assert answer.trace.ttft_ms is not None
            ttfts_ms.append(answer.trace.ttft_ms)
            answers.append(answer.text)
        same.append(answers[0] == answers[1])
    ttft_ms, plain_ttft_ms = statistics.median(speculative_ms[1:]), statistics.median(plain_ms[1:])
    return {
        "show": "speculation",
        "stage_ms": extra_ms,
        "ttft_ms": ttft_ms,
        "plain_ttft_ms": plain_ttft_ms,
        "gained_ms": plain_ttft_ms - ttft_ms,
        "same_answers": sum(same),
        "n": len(work.numbers) - 1,
    }
