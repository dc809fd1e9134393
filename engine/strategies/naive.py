"""Naive reuse: each chunk's KV as computed on its own, without the shared prefix and without moving a key.

Every chunk then brings an attention sink of its own, and all of them claim the same positions. The lower bound that
CacheBlend (arXiv:2405.16444) and EPIC (arXiv:2410.15332) compare with as "full KV reuse" without position recovery.
"""

from dataclasses import dataclass
from typing import ClassVar

from engine.strategies.base import Strategy
from engine.types import NOTHING, Placement, Plan, View


@dataclass(frozen=True)
class Naive(Strategy):
    label: ClassVar[str] = "Naive reuse"
    about: ClassVar[str] = "Recomputes nothing and moves nothing: each passage believes it starts the text."
    placement: ClassVar[Placement] = Placement.ALONE

    def plan(self, view: View) -> Plan:
        return Plan(NOTHING)
