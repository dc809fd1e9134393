"""How questions were served from the knowledge tree: tokens found as an exact prefix, as a chunk, or not at all."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from engine.request import Source

KEPT = 400  # questions that `recent` goes back


@dataclass(frozen=True, slots=True)
class QueryStats:
    """One question, counted in tokens of its passages.

    number  from 1, in the order in which their first tokens came
    exact   found as part of an exact path: KV used as it stands
    chunk   found by content
    missed  looked for and computed
    full    not looked for: the method computes everything
    """

    number: int
    exact: int = 0
    chunk: int = 0
    missed: int = 0
    full: int = 0


@dataclass(frozen=True, slots=True)
class StatsTotals:
    """Sums over all questions since the process began; none of them ever falls. TextTokenizer, as in `Service`."""

    questions: int = 0
    exact: int = 0
    chunk: int = 0
    missed: int = 0
    full: int = 0

    @property
    def hit_rate(self) -> float | None:
        """Found tokens / tokens that were looked for; None where none was."""
        asked = self.exact + self.chunk + self.missed
        return (self.exact + self.chunk) / asked if asked else None


class CacheStats:
    """The log of one engine, for any number of threads. The page reads `recent`, a monitor `totals`."""

    def __init__(self, kept: int = KEPT) -> None:
        self._lock, self._totals = Lock(), StatsTotals()
        self._recent: deque[QueryStats] = deque(maxlen=kept)

    def count(self, sources: Sequence[Source]) -> None:
        """Count one question by what its passages say of where their KV was found."""
        tokens = {"exact prefix hit": 0, "chunk hit": 0, "miss": 0, "none": 0}
        for source in sources:
            tokens[source.found] += source.tokens
        exact, chunk, missed, full = tokens.values()
        with self._lock:
            was = self._totals
            now = StatsTotals(
                was.questions + 1, was.exact + exact, was.chunk + chunk, was.missed + missed, was.full + full
            )
            self._totals = now
            self._recent.append(QueryStats(now.questions, exact, chunk, missed, full))

    def totals(self) -> StatsTotals:
        """Return the sums over all questions."""
        return self._totals

    def recent(self) -> tuple[QueryStats, ...]:
        """Return the last few hundred questions, oldest first."""
        with self._lock:
            return tuple(self._recent)
