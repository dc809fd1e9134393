"""Direct reuse: shared prefix, moved keys, nothing recomputed. The time floor."""

from dataclasses import dataclass
from typing import ClassVar

from engine.strategies.base import Strategy
from engine.types import NO_ROWS, RecomputePlan, SelectionContext


@dataclass(frozen=True)
class Direct(Strategy):
    label: ClassVar[str] = "Direct reuse"
    description: ClassVar[str] = "Recomputes nothing: cached passages, moved to their places, side by side."

    def plan(self, view: SelectionContext) -> RecomputePlan:
        return RecomputePlan(NO_ROWS)
