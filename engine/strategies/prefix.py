"""Prefix reuse: only KV that is exact as it stands, as vLLM's prefix caching and RAGCache reuse it.

Behind the first difference everything is recomputed, so the answer is the full prefill's.
Source: RAGCache, arXiv:2404.12457.
"""

from dataclasses import dataclass
from typing import ClassVar

from engine.strategies.base import Strategy
from engine.types import Placement, RecomputePlan, SelectionContext


@dataclass(frozen=True)
class Prefix(Strategy):
    label: ClassVar[str] = "Exact prefix"
    description: ClassVar[str] = "Reuses only what is exact: passages read before, in this order. Computes the rest."
    placement: ClassVar[Placement] = Placement.EXACT_PREFIX

    def plan(self, view: SelectionContext) -> RecomputePlan:
        return RecomputePlan(view.slots[view.exact_tokens :])
