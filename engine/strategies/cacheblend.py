"""CacheBlend (arXiv:2405.16444): recompute the tokens whose fresh KV deviates most from the cached KV.

All context tokens run through the layers before the check layer. There the deviation of each token, the sum over heads
and width of (fresh - cached)^2, selects the top ratio x tokens, which continue. Gradual filtering starts with more
tokens and drops some at every layer, with `ratio` as the mean from the check layer on. The paper gives no schedule;
the linear decrease from 1.5 to 0.5 of the ratio is ours.
Question rows are always fresh, and every row attends to exactly the slots at or before its own (the paper's code lets
a row see later rows of its block). As in the paper, layers before the check layer are excluded from the actual ratio;
their operations are counted.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from engine.method import bool_param, choice_param, number_param, ratio_param
from engine.strategies.base import Strategy
from engine.strategies.windows import token_budget, top_k
from engine.types import Deviation, RecomputePlan, SelectionContext

SPREAD = 0.5  # gradual filtering keeps (1 + SPREAD) x ratio at the check layer and (1 - SPREAD) x ratio at the last


@dataclass(frozen=True)
class CacheBlend(Strategy):
    """The tokens whose KV deviates most in the check layer; with `gradual`, also in every later layer."""

    label = "CacheBlend"
    description = "Recomputes the tokens whose keys or values changed most in an early layer."
    paper = "2405.16444"

    ratio: float = ratio_param(0.15)
    deviation: str = choice_param("values", "Deviation of", "What is compared in the check layer.", ("values", "keys"))
    check_layer: int = number_param(1, "Check layer", "The layer in which cached and fresh KV are compared.", 1, 8, 1)
    gradual: bool = bool_param("Gradual filtering", "Start with more tokens and drop some at every layer.")

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
