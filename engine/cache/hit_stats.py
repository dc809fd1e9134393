"""Cache hit statistics per request: tokens reused as an exact prefix, reused by content, or computed."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from engine.request import Source

HISTORY_LEN = 400  # requests that `recent` returns at most


@dataclass(frozen=True, slots=True)
class QueryStats:
    """One request, in tokens of its passages."""

    number: int  # from 1, in the order of first tokens
    exact: int = 0  # reused as part of an exact prefix, unchanged
    chunk: int = 0  # reused by content (chunk hit)
    missed: int = 0  # looked up and computed (miss)
    full: int = 0  # not looked up: the method computes all tokens


@dataclass(frozen=True, slots=True)
class StatsTotals:
    """Sums over all requests since the process began; fields as in `QueryStats`. They never decrease."""

    questions: int = 0
    exact: int = 0
    chunk: int = 0
    missed: int = 0
    full: int = 0

    @property
    def hit_rate(self) -> float | None:
        """Reused tokens / tokens looked up; None if none were looked up."""
        looked_up = self.exact + self.chunk + self.missed
        return (self.exact + self.chunk) / looked_up if looked_up else None


class CacheStats:
    """Hit statistics of one engine. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._totals = StatsTotals()
        self._recent: deque[QueryStats] = deque(maxlen=HISTORY_LEN)

    def record(self, sources: Sequence[Source]) -> None:
        """Count one request by the cache results of its passages."""
        tokens = {"exact prefix hit": 0, "chunk hit": 0, "miss": 0, "none": 0}
        for source in sources:
            tokens[source.cache_result] += source.tokens
        exact, chunk, missed, full = tokens.values()
        with self._lock:
            old = self._totals
            self._totals = StatsTotals(
                old.questions + 1, old.exact + exact, old.chunk + chunk, old.missed + missed, old.full + full
            )
            self._recent.append(QueryStats(self._totals.questions, exact, chunk, missed, full))

    def totals(self) -> StatsTotals:
        return self._totals

    def recent(self) -> tuple[QueryStats, ...]:
        """Return the last requests, oldest first."""
        with self._lock:
            return tuple(self._recent)
