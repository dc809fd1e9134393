"""Full prefill: no reuse. The quality ceiling and the time ceiling."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from engine.types import Plan, View


@dataclass(frozen=True)
class Full:
    """Computes every token, the shared prefix as well."""

    label: ClassVar[str] = "Full prefill"
    reuses: ClassVar[bool] = False
    needs_scores: ClassVar[bool] = False

    def plan(self, view: View) -> Plan:
        return Plan(torch.arange(view.spans[-1].stop if view.spans else 0))
