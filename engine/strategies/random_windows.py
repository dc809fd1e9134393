"""Random windows: the control. What a method gains over it, it gains by its choice and not by its budget."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from engine.method import number, ratio
from engine.strategies.base import Strategy
from engine.strategies.windows import budgeted
from engine.types import Plan, View


@dataclass(frozen=True)
class RandomWindows(Strategy):
    """ratio  nominal recompute ratio, 0 to 1
    seed   of the choice; the same one chooses otherwise for every prompt
    """

    label: ClassVar[str] = "Random windows"
    about: ClassVar[str] = "Recomputes windows drawn at random: the control."

    ratio: float = ratio()
    seed: int = number(0, "Seed", "Another seed draws other windows.", 0, 9999, 1)

    def plan(self, view: View) -> Plan:
        draw = torch.Generator().manual_seed((view.lot << 14) + self.seed)
        drawn = torch.rand(view.context_tokens, generator=draw)
        return Plan(view.slots[budgeted(drawn, view.lengths, self.ratio, view.exact)])
