"""Full prefill: no reuse. The quality ceiling and the time ceiling."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from engine.strategies.base import Strategy
from engine.types import Plan, View


@dataclass(frozen=True)
class Full(Strategy):
    """Computes every token, the shared prefix as well."""

    label: ClassVar[str] = "Full prefill"
    about: ClassVar[str] = "Reuses nothing: every token is computed. Best answer, longest wait."
    reuses: ClassVar[bool] = False

    def plan(self, view: View) -> Plan:
        return Plan(torch.arange(view.spans[-1].stop if view.spans else 0))
