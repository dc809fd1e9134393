"""ProphetKV (arXiv:2602.02579): recompute the tokens that the question attends to over the cached KV.

The question's rows run once through the main model over the assembled chunks; a token's score is its mean attention.
Differs from the paper: all layers have equal weight, and chunks of an exact path are skipped.
"""

from dataclasses import dataclass

from engine.method import ratio_param
from engine.strategies.base import Strategy
from engine.strategies.windows import top_tokens
from engine.types import NO_ROWS, RecomputePlan, SelectionContext


@dataclass(frozen=True)
class ProphetKV(Strategy):
    label = "ProphetKV"
    description = "Recomputes the tokens that the question attends to over the cached passages."
    paper = "2602.02579"

    ratio: float = ratio_param()

    def plan(self, context: SelectionContext) -> RecomputePlan:
        num_chunks = len(context.spans)
        if not num_chunks or context.num_exact_chunks >= max(2, num_chunks):  # the question's pass is skipped
            return RecomputePlan(context.slots if self.ratio == 1 else NO_ROWS)
        return RecomputePlan(context.slots[top_tokens(context.question_attention().mean(0), self.ratio)])
