"""ProphetKV: recompute the tokens that the question itself looks at, asked of the primary model over the cached KV.

No auxiliary model: the question's rows run once over the assembled chunks; a token's score is the attention it gets,
mean over layers, heads and question tokens. The top ratio x tokens are recomputed, one by one, without windows.
Source: arXiv:2602.02579. Ours: every layer counts alike when their attention is fused into one set of tokens, and
passages of an exact path are left alone.
"""

from dataclasses import dataclass
from typing import ClassVar

from engine.method import ratio
from engine.strategies.base import Strategy
from engine.strategies.windows import top_tokens
from engine.types import NO_ROWS, RecomputePlan, SelectionContext


@dataclass(frozen=True)
class ProphetKV(Strategy):
    """ratio  nominal recompute ratio, 0 to 1"""

    label: ClassVar[str] = "ProphetKV"
    description: ClassVar[str] = "Recomputes the tokens that the question attends to over the cached passages."

    ratio: float = ratio()

    def plan(self, view: SelectionContext) -> RecomputePlan:
        if not view.spans or (view.num_exact_chunks >= max(2, len(view.spans)) and self.ratio < 1):
            return RecomputePlan(NO_ROWS)  # nothing, or nothing that is not exact: the question need not be asked twice
        return RecomputePlan(view.slots[top_tokens(view.attention().mean(0), self.ratio)])
