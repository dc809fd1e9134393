"""Speculative prefill with a slow last search stage on the real engine: TTFT with and without, same answers or not."""

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

from bench.tables import progress
from engine.engine import Engine
from engine.request import Request
from engine.scheduler.speculation import MIN_REMAINING_MS
from store.types import Chunk, Document, Finder, Hit

DISABLED_MS = 1e12


class SlowLastStage:
    """A library whose last search stage is delayed, as by a cross-encoder; the hits stay the same."""

    def __init__(self, library: Finder, extra_ms: float) -> None:
        self._library, self._extra_ms = library, extra_ms

    def retrieve_stages(self, question: str, top: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        stages = list(self._library.retrieve_stages(question, top, documents))
        yield stages[-1]
        time.sleep(self._extra_ms / 1e3)
        yield stages[-1]

    def documents(self) -> list[Document]:
        return self._library.documents()

    def chunks(self, document_id: str) -> list[Chunk]:
        return self._library.chunks(document_id)

    def chunks_by_id(self, ids: Sequence[str]) -> dict[str, Chunk]:
        return self._library.chunks_by_id(ids)


def compare_speculation(engine: Engine, requests: list[Request], extra_ms: float) -> dict[str, Any]:
    """Ask each question with speculation and without, paired; medians in milliseconds."""
    engine.finder = SlowLastStage(engine.finder, extra_ms)
    ttft: dict[bool, list[float]] = {True: [], False: []}
    num_same = 0
    for request in progress(requests, f"{extra_ms:g} ms last stage"):
        answers = []
        for speculative in (False, True):
            engine.speculator.min_remaining_ms = MIN_REMAINING_MS if speculative else DISABLED_MS
            *_, answer = engine.ask(request)
            assert answer.trace.ttft_ms is not None
            ttft[speculative].append(answer.trace.ttft_ms)
            answers.append(answer.text)
        num_same += answers[0] == answers[1]
    plain_ms, speculative_ms = (statistics.median(ttft[speculative][1:]) for speculative in (False, True))
    return {
        "stage_ms": extra_ms,
        "ttft_ms": speculative_ms,
        "plain_ttft_ms": plain_ms,
        "gained_ms": plain_ms - speculative_ms,
        "same_answers": num_same,
        "n": len(requests) - 1,
    }
