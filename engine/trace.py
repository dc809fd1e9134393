"""Where the time to first token went.

Stages may overlap (the auxiliary model scores while the primary's KV is loaded), so TTFT is measured, never summed.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    start_ms: float  # since the question arrived
    length_ms: float


@dataclass
class Trace:
    """The stages of one request, from any thread.

    clock   seconds, monotonic
    settle  waits for queued device work; `torch.cuda.synchronize` on a GPU
    """

    clock: Callable[[], float] = time.perf_counter
    synchronize: Callable[[], None] = lambda: None
    stages: list[Stage] = field(default_factory=list)
    ttft_ms: float | None = None

    def __post_init__(self) -> None:
        self._born = self.clock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Record the enclosed block, also when it raises."""
        start = self.now_ms()
        try:
            yield
        finally:
            self.stages.append(Stage(name, start, self.now_ms() - start))

    def add(self, name: str, start_ms: float) -> None:
        """Record a stage that began at `start_ms` and ends now."""
        self.stages.append(Stage(name, start_ms, self.now_ms() - start_ms))

    def branch(self) -> "Trace":
        """Return a trace of the same request for work that may turn out to be in vain."""
        made = Trace(self.clock, self.synchronize)
        made._born = self._born
        return made

    def first_token(self) -> None:
        """Mark the first token. Later calls change nothing."""
        if self.ttft_ms is None:
            self.ttft_ms = self.now_ms()

    def now_ms(self) -> float:
        """Return the milliseconds since the question arrived."""
        self.synchronize()
        return (self.clock() - self._born) * 1e3

    def as_dict(self) -> dict[str, Any]:
        """Return plain data: the page, the bench and the download all read this."""
        return {"ttft_ms": self.ttft_ms, "stages": [asdict(stage) for stage in self.stages]}
