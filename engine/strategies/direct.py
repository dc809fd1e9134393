"""Direct reuse: shared prefix, moved keys, nothing recomputed. The time floor."""

from dataclasses import dataclass
from typing import ClassVar

from engine.strategies.base import Strategy
from engine.types import NOTHING, Plan, View


@dataclass(frozen=True)
class Direct(Strategy):
    label: ClassVar[str] = "Direct reuse"
    about: ClassVar[str] = "Recomputes nothing: cached passages, moved to their places, side by side."

    def plan(self, view: View) -> Plan:
        return Plan(NOTHING)
