"""CacheBlend (arXiv:2405.16444): recompute the tokens whose fresh KV deviates most from the cached KV.

All context tokens run through the layers before the check layer. There the deviation of each token, the sum over heads
and width of (fresh - cached)^2, selects the top ratio x tokens, which continue. Gradual filtering starts with more
tokens and drops some at every layer, with `ratio` as the mean; the linear decrease from 1.5 to 0.5 of it is ours. Every
row attends to exactly the slots at or before its own (the paper's code lets a row see later rows of its block). As in
the paper, layers before the check layer do not count in the actual ratio; their operations do.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from engine.method import param_field, ratio_param
from engine.strategies.base import Strategy
from engine.strategies.windows import token_budget, top_k
from engine.types import Deviation, RecomputePlan, SelectionContext

SPREAD = 0.5  # gradual filtering keeps (1 + SPREAD) x ratio at the check layer and (1 - SPREAD) x ratio at the last


@dataclass(frozen=True)
class CacheBlend(Strategy):
    label = "CacheBlend"
    description = "Recomputes the tokens whose keys or values changed most in an early layer."
    paper = "2405.16444"

    ratio: float = ratio_param(0.15)
    deviation: str = param_field(
        "values", "Deviation of", "What is compared in the check layer.", choices=("values", "keys")
    )
    check_layer: int = param_field(
        1, "Check layer", "The layer in which cached and fresh KV are compared.", low=1, high=8, step=1
    )
    gradual: bool = param_field(False, "Gradual filtering", "Start with more tokens and drop some at every layer.")

    def plan(self, context: SelectionContext) -> RecomputePlan:
        def filter_rows(layer: int, deviation: Callable[[], Deviation]) -> Tensor | None:
            if layer < self.check_layer or (layer > self.check_layer and not self.gradual):
                return None
            count = token_budget(self._ratio_at(layer, context.num_layers), context.context_tokens)
            return top_k(getattr(deviation(), self.deviation), count)

        return RecomputePlan(context.slots, row_filter=filter_rows if self.ratio < 1 else None)

    def _ratio_at(self, layer: int, num_layers: int) -> float:
        """Return the ratio of tokens that continue from a layer; decreases linearly with gradual filtering."""
        if not self.gradual or num_layers - 1 <= self.check_layer:
            return self.ratio
        progress = (layer - self.check_layer) / (num_layers - 1 - self.check_layer)
        spread = min(SPREAD, 1 / self.ratio - 1) if self.ratio else 0.0  # at most all tokens, so the mean is kept
        return self.ratio * (1 + spread * (1 - 2 * progress))
