"""Oracle windows: chosen by the full prefill's own attention, which a real method cannot know.

The question's rows in the last layer of a full prefill, mean over heads and question tokens, grouped like CacheClip's
scores. The reference for selection by attention: a better selector of this kind can only come near it. It costs more
time than it saves.
"""

from dataclasses import dataclass
from typing import ClassVar

from engine.method import ratio
from engine.strategies.base import Strategy
from engine.strategies.windows import budgeted
from engine.types import NOTHING, Plan, View


@dataclass(frozen=True)
class OracleWindows(Strategy):
    """ratio  nominal recompute ratio, 0 to 1"""

    label: ClassVar[str] = "Oracle windows"
    about: ClassVar[str] = "Recomputes what a full prefill attends to: a reference, slower than full prefill."

    ratio: float = ratio()

    def plan(self, view: View) -> Plan:
        if not view.spans:
            return Plan(NOTHING)
        return Plan(view.slots[budgeted(view.oracle(), view.lengths, self.ratio, view.exact)])
