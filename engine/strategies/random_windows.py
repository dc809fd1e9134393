"""Random windows: the control. What a method gains over it, it gains by its choice and not by its budget."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from engine.method import number, ratio
from engine.strategies.base import Strategy
from engine.strategies.windows import windows_within_budget
from engine.types import RecomputePlan, SelectionContext


@dataclass(frozen=True)
class RandomWindows(Strategy):
    """ratio  nominal recompute ratio, 0 to 1
    seed   of the choice; the same one chooses otherwise for every prompt
    """

    label: ClassVar[str] = "Random windows"
    description: ClassVar[str] = "Recomputes windows drawn at random: the control."

    ratio: float = ratio()
    seed: int = number(0, "Seed", "Another seed draws other windows.", 0, 9999, 1)

    def plan(self, view: SelectionContext) -> RecomputePlan:
        draw = torch.Generator().manual_seed((view.seed << 14) + self.seed)
        drawn = torch.rand(view.context_tokens, generator=draw)
        return RecomputePlan(view.slots[windows_within_budget(drawn, view.lengths, self.ratio, view.num_exact_chunks)])
