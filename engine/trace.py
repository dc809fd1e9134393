"""Timings of one request: its stages and the time to first token (TTFT).

Stages may overlap (the auxiliary model scores while the main model's KV is loaded), so TTFT is measured, never summed.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    start_ms: float  # since the request arrived
    length_ms: float


@dataclass
class Trace:
    """The stages of one request; any thread may record them.

    clock        monotonic, in seconds
    synchronize  waits for queued device work; `torch.cuda.synchronize` on a GPU
    """

    clock: Callable[[], float] = time.perf_counter
    synchronize: Callable[[], None] = lambda: None
    stages: list[Stage] = field(default_factory=list)
    ttft_ms: float | None = None

    def __post_init__(self) -> None:
        self._start = self.clock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Record the enclosed block as a stage, even if it raises."""
        start = self.now_ms()
        try:
            yield
        finally:
            self.add(name, start)

    def add(self, name: str, start_ms: float) -> None:
        """Record a stage that began at `start_ms` and ends now."""
        self.stages.append(Stage(name, start_ms, self.now_ms() - start_ms))

    def branch(self) -> "Trace":
        """Return a trace with the same start for work that may be discarded."""
        branch = Trace(self.clock, self.synchronize)
        branch._start = self._start
        return branch

    def first_token(self) -> None:
        """Record the time to first token. Later calls change nothing."""
        if self.ttft_ms is None:
            self.ttft_ms = self.now_ms()

    def now_ms(self) -> float:
        """Return the milliseconds since the request arrived."""
        self.synchronize()
        return (self.clock() - self._start) * 1e3

    def as_dict(self) -> dict[str, Any]:
        """Return the TTFT and the stages as JSON-ready data."""
        return {"ttft_ms": self.ttft_ms, "stages": [asdict(stage) for stage in self.stages]}
