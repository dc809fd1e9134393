"""Direct reuse: shared prefix, moved keys, nothing recomputed. The time floor."""

from dataclasses import dataclass
from typing import ClassVar

from engine.types import NOTHING, Plan, View


@dataclass(frozen=True)
class Direct:
    label: ClassVar[str] = "Direct reuse"
    reuses: ClassVar[bool] = True
    needs_scores: ClassVar[bool] = False

    def plan(self, view: View) -> Plan:
        return Plan(NOTHING)
