"""Strategies: which context tokens deserve fresh keys and values.

To add one: write a frozen dataclass with `plan`, then add a line to STRATEGIES. Its fields become the sliders of the
page and the arguments of the bench.
"""

from typing import ClassVar, Protocol

from engine.reuse.strategies.cacheclip import CacheClip
from engine.reuse.strategies.direct import Direct
from engine.reuse.strategies.full import Full
from engine.types import Plan, View


class Strategy(Protocol):
    """A pure choice: the same view gives the same plan, and nothing is changed.

    label         what the page calls it
    reuses        reads the chunks' cached KV; without it nothing is loaded
    needs_scores  reads the auxiliary model's scores, which then start early, beside the loading
    """

    label: ClassVar[str]
    reuses: ClassVar[bool]
    needs_scores: ClassVar[bool]

    def plan(self, view: View) -> Plan: ...


STRATEGIES: dict[str, type[Strategy]] = {
    "cacheclip": CacheClip,
    "direct": Direct,
    "full": Full,
}
