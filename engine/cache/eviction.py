"""Eviction policies: the evictable node with the lowest priority leaves its tier first.

PGDSF (prefix-aware greedy-dual-size-frequency) is from RAGCache (arXiv:2404.12457). Its cost per token is measured
and depends on the cached prefix. The other policies are the paper's baselines; GDSF is Cherkasova's (HP Labs, 1998).

The term `clock` is GDSF's aging. It is the highest priority that a tier has evicted and is added to the priority of
every node that is used or inserted later, so that nodes without recent uses lose rank, whatever they cost.
"""

from typing import Protocol

from engine.cache.node import Node


class Policy(Protocol):
    """A pure function of a node's statistics.

    A new policy implements `priority` and is added to `POLICIES`.
    """

    def priority(self, node: Node, clock: float) -> float:
        """Return the priority of a node in a tier.

        Parameters
        ----------
        node
            Its frequency, last use and cost per token are known.
        clock
            The tier's aging term: the highest priority evicted from it so far.

        Returns
        -------
        float
            The lowest priority is evicted first.
        """
        ...


class PGDSF:
    """clock + frequency x cost / size; cost / size is the mean time in ms that a token of the node took."""

    def priority(self, node: Node, clock: float) -> float:
        return clock + node.frequency * node.ms_per_token


class GDSF:
    """clock + frequency: the cost is taken as proportional to the size, so every token costs the same."""

    def priority(self, node: Node, clock: float) -> float:
        return clock + node.frequency


class LRU:
    """Evict the least recently used node."""

    def priority(self, node: Node, clock: float) -> float:
        return node.last_use


class LFU:
    """Evict the least frequently used node; there is no aging."""

    def priority(self, node: Node, clock: float) -> float:
        return node.frequency


POLICIES: dict[str, type[Policy]] = {"pgdsf": PGDSF, "gdsf": GDSF, "lru": LRU, "lfu": LFU}
