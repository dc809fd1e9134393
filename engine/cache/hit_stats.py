"""Cache hit statistics per request: tokens reused as an exact prefix, reused by content, or computed."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from operator import add
from threading import Lock

from engine.request import Source

HISTORY_LEN = 400  # requests that `recent` returns at most


@dataclass(frozen=True, slots=True)
class QueryStats:
    """One request, or the sums over all since the process began, in tokens of their passages."""

    number: int = 0  # of the request, from 1, in the order of first tokens; or how many there were
    exact: int = 0  # reused as part of an exact prefix, unchanged
    chunk: int = 0  # reused by content (chunk hit)
    missed: int = 0  # looked up and computed (miss)
    full: int = 0  # not looked up: the method computes all tokens

    @property
    def hit_rate(self) -> float | None:
        """Reused tokens / tokens looked up; None if none were looked up."""
        looked_up = self.exact + self.chunk + self.missed
        return (self.exact + self.chunk) / looked_up if looked_up else None


class CacheStats:
    """Hit statistics of one engine. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._totals = QueryStats()
        self._recent: deque[QueryStats] = deque(maxlen=HISTORY_LEN)

    def record(self, sources: Sequence[Source]) -> None:
        """Count one request by the cache results of its passages."""
        tokens = Counter[str]()
        for source in sources:
            tokens[source.cache_result] += source.tokens
        counts = [tokens[result] for result in ("exact prefix hit", "chunk hit", "miss", "none")]
        with self._lock:
            self._totals = QueryStats(*map(add, astuple(self._totals), (1, *counts)))
            self._recent.append(QueryStats(self._totals.number, *counts))

    def totals(self) -> QueryStats:
        return self._totals

    def recent(self) -> tuple[QueryStats, ...]:
        """Return the last requests, oldest first."""
        with self._lock:
            return tuple(self._recent)
