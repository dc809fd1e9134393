"""Oracle windows: chosen by the full prefill's own attention, which a real method cannot know.

The question's rows in the last layer of a full prefill, mean over heads and question tokens, grouped like CacheClip's
scores. The reference for selection by attention: a better selector of this kind can only come near it. It costs more
time than it saves.
"""

from dataclasses import dataclass
from typing import ClassVar

from engine.method import ratio
from engine.strategies.base import Strategy
from engine.strategies.windows import windows_within_budget
from engine.types import NO_ROWS, RecomputePlan, SelectionContext


@dataclass(frozen=True)
class OracleWindows(Strategy):
    """ratio  nominal recompute ratio, 0 to 1"""

    label: ClassVar[str] = "Oracle windows"
    description: ClassVar[str] = "Recomputes what a full prefill attends to: a reference, slower than full prefill."

    ratio: float = ratio()

    def plan(self, view: SelectionContext) -> RecomputePlan:
        if not view.spans:
            return RecomputePlan(NO_ROWS)
        return RecomputePlan(
            view.slots[windows_within_budget(view.oracle_attention(), view.lengths, self.ratio, view.num_exact_chunks)]
        )
