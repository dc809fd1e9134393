"""Replacement policies: which node of a tier is worth least. The one with the lowest priority goes first.

PGDSF is RAGCache's (arXiv:2404.12457): the clock makes what was not used for long go, however dear it was; the cost of
a token is measured and counts the passages that stand before it. The others are its rivals there.
"""

from typing import Protocol

from engine.cache.node import Node


class Policy(Protocol):
    """A pure function of what a node has seen."""

    def priority(self, node: Node, clock: float) -> float:
        """Return what the node is worth in a tier whose clock stands at the highest priority evicted so far."""
        ...


class PGDSF:
    """clock + frequency x cost / size, cost / size being the mean milliseconds that a token of it took to compute."""

    def priority(self, node: Node, clock: float) -> float:
        return clock + node.frequency * node.ms_per_token


class GDSF:
    """The same with a cost that is proportional to size, so that every token costs the same (Cherkasova, 1998)."""

    def priority(self, node: Node, clock: float) -> float:
        return clock + node.frequency


class LRU:
    """The least recently used goes first."""

    def priority(self, node: Node, clock: float) -> float:
        return node.last_use


class LFU:
    """The least frequently used goes first; nothing ages."""

    def priority(self, node: Node, clock: float) -> float:
        return node.frequency


POLICIES: dict[str, type[Policy]] = {"pgdsf": PGDSF, "gdsf": GDSF, "lru": LRU, "lfu": LFU}
