"""Speculation with a slow last search stage on the real engine: TTFT with and without, and whether answers agree."""

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

from bench.tables import progress
from engine.engine import Engine
from engine.request import Request
from engine.scheduler.speculation import SpeculationConfig
from store.types import Chunk, Document, Finder, Hit

DISABLED_MS = 1e12


class SlowLastStage:
    """A library whose last search stage takes longer, as a cross-encoder's would; the hits stay the same."""

    def __init__(self, library: Finder, extra_ms: float) -> None:
        self._library, self._extra_ms = library, extra_ms

    def retrieve_stages(self, question: str, top: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        found = list(self._library.retrieve_stages(question, top, documents))
        yield found[-1]
        time.sleep(self._extra_ms / 1e3)
        yield found[-1]

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
    same = 0
    for request in progress(requests, f"{extra_ms:g} ms last stage"):
        said = []
        for speculating in (False, True):
            engine.speculator.config = SpeculationConfig(20.0 if speculating else DISABLED_MS)
            *_, answer = engine.ask(request)
            assert answer.trace.ttft_ms is not None
            ttft[speculating].append(answer.trace.ttft_ms)
            said.append(answer.text)
        same += said[0] == said[1]
    without, with_it = (statistics.median(ttft[speculating][1:]) for speculating in (False, True))
    return {
        "stage_ms": extra_ms,
        "ttft_ms": with_it,
        "plain_ttft_ms": without,
        "gained_ms": without - with_it,
        "same_answers": same,
        "n": len(requests) - 1,
    }
