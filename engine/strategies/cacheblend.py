"""CacheBlend: recompute the tokens whose fresh KV deviates most from the cached KV in an early layer.

All context tokens go through the layers before the check layer. There the deviation of each, the sum over heads and
width of (fresh - cached)^2, decides who goes on: the top ratio x tokens. Gradual filtering starts with more and drops
some at every layer, `ratio` in the mean over the layers from the check layer on; that it falls linearly, from 1.5 to
0.5 of the ratio, is ours, since the paper gives no schedule.
Source: arXiv:2405.16444. The question is always fresh, and every row sees exactly what lies before it (the paper's code
lets a kept row see later ones of its own block). Layers before the check layer are fresh for all tokens and are not
counted in the realised ratio, as in the paper; they are counted in its time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from engine.method import choice, number, ratio, switch
from engine.strategies.base import Strategy
from engine.strategies.windows import token_budget
from engine.types import Deviation, RecomputePlan, SelectionContext

WIDER = 0.5  # gradual filtering keeps (1 + WIDER) ratio at the check layer and (1 - WIDER) ratio at the last


@dataclass(frozen=True)
class CacheBlend(Strategy):
    """ratio        nominal recompute ratio, 0 to 1
    deviation    of 'values' or 'keys'
    check_layer  where the deviation is measured
    gradual      filter at every layer from the check layer on
    """

    label: ClassVar[str] = "CacheBlend"
    description: ClassVar[str] = "Recomputes the tokens whose keys or values changed most in an early layer."

    ratio: float = ratio(0.15)
    deviation: str = choice("values", "Deviation of", "What is compared in the check layer.", ("values", "keys"))
    check_layer: int = number(1, "Check layer", "The layer in which cached and fresh are compared.", 1, 8, 1)
    gradual: bool = switch("Gradual filtering", "Start with more tokens and drop some at every layer.")

    def plan(self, view: SelectionContext) -> RecomputePlan:
        def thin(layer: int, deviation: Callable[[], Deviation]) -> Tensor | None:
            if layer < self.check_layer or (layer > self.check_layer and not self.gradual):
                return None
            wanted = token_budget(self._ratio_at(layer, view.num_layers), view.context_tokens)
            return _top(getattr(deviation(), self.deviation), wanted)

        return RecomputePlan(view.slots, row_filter=thin if self.ratio < 1 else None)

    def _ratio_at(self, layer: int, layers: int) -> float:
        """Return the ratio of tokens that go on from a layer; falls in equal steps where filtering is gradual."""
        if not self.gradual or layers - 1 <= self.check_layer:
            return self.ratio
        way = (layer - self.check_layer) / (layers - 1 - self.check_layer)
        wider = min(WIDER, 1 / self.ratio - 1) if self.ratio else 0.0  # never more than all, so that the mean is kept
        return self.ratio * (1 + wider * (1 - 2 * way))


def _top(deviation: Tensor, count: int) -> Tensor:
    """Return the ascending indices of the `count` largest; of equals the earlier ones."""
    return deviation.argsort(descending=True, stable=True)[:count].sort().values
