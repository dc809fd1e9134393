"""EPIC, LegoLink-k (arXiv:2410.15332): recompute the first k tokens of every chunk except the first.

They are attention sinks, because they were computed at the start of the text; with the true context, they no longer
are. The paper needs k <= 32; larger values match budgets. The shared prefix already absorbs most of the sink here.
"""

from dataclasses import dataclass

import torch

from engine.method import param_field
from engine.strategies.base import Strategy
from engine.types import NO_ROWS, RecomputePlan, SelectionContext


@dataclass(frozen=True)
class EPIC(Strategy):
    label = "EPIC"
    description = "Recomputes the first tokens of every passage but the first."
    paper = "2410.15332"

    tokens: int = param_field(
        32, "Tokens at each start", "The paper's k: first tokens of a passage.", low=0, high=512, step=1
    )

    def plan(self, context: SelectionContext) -> RecomputePlan:
        starts = [torch.arange(span.start, min(span.start + self.tokens, span.stop)) for span in context.spans[1:]]
        return RecomputePlan(torch.cat(starts) if starts else NO_ROWS)
