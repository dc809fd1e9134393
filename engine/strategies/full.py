"""Full prefill: no reuse. The quality ceiling and the time ceiling."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from engine.strategies.base import Strategy
from engine.types import RecomputePlan, SelectionContext


@dataclass(frozen=True)
class Full(Strategy):
    """Computes every token, the shared prefix as well."""

    label: ClassVar[str] = "Full prefill"
    description: ClassVar[str] = "Reuses nothing: every token is computed. Best answer, longest wait."
    reuses: ClassVar[bool] = False

    def plan(self, view: SelectionContext) -> RecomputePlan:
        return RecomputePlan(torch.arange(view.spans[-1].stop if view.spans else 0))
