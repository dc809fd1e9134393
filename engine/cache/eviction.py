"""Eviction policies: the evictable node with the lowest priority leaves its tier first.

PGDSF is from RAGCache (arXiv:2404.12457); the others are its baselines; GDSF is Cherkasova's (HP Labs, 1998). Its
`clock` is the highest priority that a tier has evicted. It is added to the priority of every node that is used or
inserted later, so that nodes without recent uses lose rank, whatever they cost.
"""

from collections.abc import Callable

from engine.cache.tier import Node

Policy = Callable[[Node, float], float]  # a pure function: a node's statistics and its tier's clock -> its priority


def pgdsf(node: Node, clock: float) -> float:
    """clock + frequency x cost / size; cost / size is the mean time in ms that a token of the node took."""
    return clock + node.frequency * node.ms_per_token


def gdsf(node: Node, clock: float) -> float:
    """clock + frequency: the cost is taken as proportional to the size, so every token costs the same."""
    return clock + node.frequency


def lru(node: Node, clock: float) -> float:
    """The least recently used node is evicted first."""
    return node.last_use


def lfu(node: Node, clock: float) -> float:
    """The least frequently used node is evicted first; there is no aging."""
    return node.frequency


POLICIES: dict[str, Policy] = {"pgdsf": pgdsf, "gdsf": gdsf, "lru": lru, "lfu": lfu}
