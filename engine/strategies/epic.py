"""EPIC (LegoLink-k): recompute the first k tokens of every chunk but the first.

A chunk's first tokens soak up attention because they once stood at the start; seeing what really comes before them,
they stop doing so. Source: arXiv:2410.15332. The paper needs k of at most 32; more is allowed here so that a budget
can be matched. Chunks are computed behind the shared prefix here, which already takes most of the sink away.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from engine.method import number
from engine.strategies.base import Strategy
from engine.types import NO_ROWS, RecomputePlan, SelectionContext


@dataclass(frozen=True)
class EPIC(Strategy):
    """tokens  k"""

    label: ClassVar[str] = "EPIC"
    description: ClassVar[str] = "Recomputes the first tokens of every passage but the first."

    tokens: int = number(32, "TextTokenizer at each start", "The paper's k: first tokens of a passage.", 0, 512, 1)

    def plan(self, view: SelectionContext) -> RecomputePlan:
        starts = [torch.arange(span.start, min(span.start + self.tokens, span.stop)) for span in view.spans[1:]]
        return RecomputePlan(torch.cat(starts) if starts else NO_ROWS)
