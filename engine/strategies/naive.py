"""Naive reuse: each chunk's KV as computed on its own, without the shared prefix and without moving a key.

Every chunk then brings an attention sink of its own, and all of them claim the same positions. The lower bound that
CacheBlend (arXiv:2405.16444) and EPIC (arXiv:2410.15332) compare with as "full KV reuse" without position recovery.
"""

from dataclasses import dataclass
from typing import ClassVar

from engine.strategies.base import Strategy
from engine.types import NO_ROWS, Placement, RecomputePlan, SelectionContext


@dataclass(frozen=True)
class Naive(Strategy):
    label: ClassVar[str] = "Naive reuse"
    description: ClassVar[str] = "Recomputes nothing and moves nothing: each passage believes it starts the text."
    placement: ClassVar[Placement] = Placement.NO_PREFIX

    def plan(self, view: SelectionContext) -> RecomputePlan:
        return RecomputePlan(NO_ROWS)
