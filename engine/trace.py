"""Timings of one request. Stages may overlap, so the time to first token (TTFT) is measured, never summed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    start_ms: float  # since the request arrived
    length_ms: float


@dataclass
class Trace:
    """The stages of one request; any thread may record them."""

    synchronize: Callable[[], None] = lambda: None  # waits for queued device work; `torch.cuda.synchronize` on a GPU
    stages: list[Stage] = field(default_factory=list)
    ttft_ms: float | None = None
    start_s: float = field(default_factory=perf_counter)  # when the request arrived

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
        return Trace(self.synchronize, start_s=self.start_s)

    def snapshot(self) -> "Trace":
        """Return a copy of the timings to keep: unlike the trace, it does not refer to the model."""
        return Trace(stages=list(self.stages), ttft_ms=self.ttft_ms)

    def waited_for(self, stage: str) -> bool:
        """Return whether the first token came after a stage: an answer made of quotes needs no prefill."""
        return any(each.name == stage and each.start_ms < (self.ttft_ms or 0.0) for each in self.stages)

    def first_token(self) -> None:
        self.ttft_ms = self.now_ms()

    def now_ms(self) -> float:
        """Return the milliseconds since the request arrived."""
        self.synchronize()
        return (perf_counter() - self.start_s) * 1e3

    def as_dict(self) -> dict[str, Any]:
        return {"ttft_ms": self.ttft_ms, "stages": [asdict(stage) for stage in self.stages]}
