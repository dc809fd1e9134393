"""The knowledge tree: which chunk sequences have KV, and which of it stays where when room is short.

A node's KV is exact behind its path; at depth 1 that is the position-independent chunk KV. Always true: a node's parent
lies at least as fast as the node; a tier holds at most its budget; a held node keeps its copies. So only leaves of a
tier are evicted. What leaves a tier goes to the next slower one, unless a copy is there already (swap out only once).
Source: RAGCache, arXiv:2404.12457.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Generic

from engine.cache.eviction import PGDSF, Policy
from engine.cache.node import Node
from engine.cache.replicas import Replicas
from engine.cache.tier import KV, Record, Tier


@dataclass(frozen=True, slots=True)
class NodeKey:
    """Where a node belongs: its own key, its chunk's, its parent's (None at depth 1), its tokens, and its family.

    family  names what all nodes of one model and prefix share
    """

    key: str
    chunk: str
    parent: str | None
    tokens: int
    family: str = ""


class KnowledgeTree(Generic[KV]):
    """A tree for any number of threads.

    tiers   the fastest first
    policy  decides what goes; PGDSF unless given
    clock   seconds, monotonic: measures how fast tiers are read, never ages
    """

    def __init__(
        self, tiers: Sequence[Tier[KV]], policy: Policy | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._copies, self._clock, self._lock = Replicas(tiers, policy or PGDSF()), clock, RLock()
        self.uses = 0  # so far; a node's age is how many came since its last
        self._visits: list[list[str]] = []  # chunks deleted during each visit

    @property
    def tiers(self) -> tuple[Tier[KV], ...]:
        return self._copies.tiers

    def __len__(self) -> int:
        return len(self._copies.nodes)

    def __contains__(self, key: str) -> bool:
        return key in self._copies.nodes

    def match_prefix(self, keys: Sequence[str]) -> list[Node]:
        """Return the nodes of the longest leading part of `keys` that is here; each key names its whole path."""
        with self._lock:
            found = []
            for key in keys:
                if (node := self._copies.nodes.get(key)) is None:
                    break
                found.append(node)
            return found

    @contextmanager
    def pinned_while(self, keys: Sequence[str]) -> Iterator[list[Node]]:
        """Hold the nodes of the longest path of `keys`, so that nothing of it is evicted."""
        with self._lock:
            nodes = self.match_prefix(keys)
            self._hold(nodes, 1)
        try:
            yield nodes
        finally:
            with self._lock:
                self._hold(nodes, -1)

    @contextmanager
    def locked(self) -> Iterator[Replicas[KV]]:
        """Keep every other thread out while somebody looks at all nodes and copies, or changes several."""
        with self._lock:
            yield self._copies

    @contextmanager
    def track_deletions(self) -> Iterator[list[str]]:
        """Enclose work that computes KV: a chunk that is deleted meanwhile is deleted again at its end.

        Yields the chunks that were, a list that grows.
        """
        deleted: list[str] = []
        with self._lock:
            self._visits.append(deleted)
        try:
            yield deleted
        finally:
            with self._lock:
                self._visits = [other for other in self._visits if other is not deleted]
                for chunk in set(deleted):  # visits that were there at the deletion know it themselves
                    self._drop(chunk)

    def read(self, node: Node) -> tuple[KV, str] | None:
        """Return a held node's KV and the name of the tier it came from, and bring it up to the fastest.

        Read a path from its beginning. No other thread waits for the reading. None if the KV is lost.
        """
        with self._lock:
            level = node.level
            if level == len(self.tiers):
                return None
        tier, began = self.tiers[level], self._clock()
        try:
            kv = tier.store.get(node.key)
        except KeyError:
            self.lost(node.key, level)
            return self.read(node)
        with self._lock:
            if level in node.copies:
                size = node.copies[level].size_bytes
                self._bring_up(node, kv)
                if node.level < level:
                    kv = self.tiers[node.level].store.get(node.key)  # on a GPU, which spares a second transfer
                tier.was_read(size, 1e3 * (self._clock() - began))  # with the transfer
        return kv, tier.name

    def read_ms(self, node: Node) -> float:
        """Return how long reading a node should take by what was measured; 0 where nothing was."""
        with self._lock:
            if not node.copies:
                return 0.0
            return (self.tiers[node.level].ms_per_byte or 0.0) * node.copies[node.level].size_bytes

    def record_skip(self, node: Node) -> None:
        """Note that computing was thought faster than reading: the next time reading is thought a little faster."""
        with self._lock:
            if node.copies:
                self.tiers[node.level].forget()

    def insert(self, place: NodeKey, kv: KV, ms_per_token: float) -> Node | None:
        """Put a node into the fastest tier that has room for it, evicting what is worth least; count it as used.

        ms_per_token  what computing it took

        Returns None where no tier takes it, or its parent is not here. A node that is here already is brought up, and
        what memory has of it replaced: that may have come back rounded.
        """
        with self._lock:
            parent = self._copies.nodes.get(place.parent) if place.parent is not None else None
            if place.parent is not None and parent is None:
                return None
            if (node := self._copies.nodes.get(place.key)) is None:
                node = Node(place.key, place.chunk, parent, place.tokens, len(self.tiers), place.family)
                self._copies.attach(node)
            node.missed(ms_per_token)
            self.record_hit([node])
            try:
                with self._held([node, *node.ancestors()]):
                    self._copies.refresh(node, kv)
                    self._bring_up(node, kv)
            finally:
                if not node.copies:
                    self._copies.detach(node)
            return node if node.copies else None

    def record_hit(self, nodes: Sequence[Node]) -> None:
        """Count one use of each node."""
        with self._lock:
            self.uses += 1
            for node in nodes:
                node.frequency, node.last_use = node.frequency + 1, self.uses
                self._copies.update_priorities(node)

    def replicate(self, key: str) -> bool:
        """Copy a node to the slowest tier as well; return whether it is there now."""
        last = len(self.tiers) - 1
        with self._lock:
            if (node := self._copies.nodes.get(key)) is None or last in node.copies:
                return node is not None
            with self._held([node, *node.ancestors()]):
                return self._copies.put(node, last, self.tiers[node.level].store.get(key))

    def delete(self, chunk: str) -> None:
        """Remove a chunk, and every path that goes through it, from every tier; held or not."""
        with self._lock:
            for deleted in self._visits:
                deleted.append(chunk)
            self._drop(chunk)

    def _drop(self, chunk: str) -> None:
        for node in list(self._copies.by_chunk.get(chunk, ())):
            self._copies.drop(node)

    def delete_except(self, families: Sequence[str]) -> None:
        """Remove every path of a family that is not among these, from every tier."""
        with self._lock:
            for node in list(self._copies.nodes.values()):
                if node.family not in families:
                    self._copies.drop(node)

    def clear(self, number: int | None = None) -> None:
        """Remove every copy in one tier or in all, held or not. What has no copy left is gone."""
        with self._lock:
            for node in reversed(list(self._copies.nodes.values())):  # children first: what is deeper came later
                for tier in list(node.copies) if number is None else [number]:
                    if tier in node.copies:
                        self._copies.remove(node, tier)

    def lost(self, key: str, number: int) -> None:
        """Forget a copy that turned out not to be there."""
        with self._lock:
            if (node := self._copies.nodes.get(key)) is not None and number in node.copies:
                self._copies.remove(node, number)

    def restore(self, found: Sequence[tuple[str, int, Record]]) -> list[str]:
        """Take in what the slowest tier's store has from an earlier process: key, bytes and record of each.

        Returns the keys for which there is no place: the path to them is broken, or the budget is smaller now.
        """
        with self._lock:
            self._copies.restore(found)
            return [key for key, _, _ in found if key not in self]

    def records(self) -> dict[str, tuple[int, Record]]:
        """Return bytes and record of every node that lies in the slowest tier."""
        with self._lock:
            return self._copies.records()

    def _bring_up(self, node: Node, kv: KV) -> None:
        """Copy a held node into the fastest tier that takes it; its parent lies at least as fast."""
        for number in range(node.parent.level if node.parent else 0, node.level):
            if self._copies.put(node, number, kv):
                return

    @contextmanager
    def _held(self, nodes: Sequence[Node]) -> Iterator[None]:
        self._hold(nodes, 1)
        try:
            yield
        finally:
            self._hold(nodes, -1)

    def _hold(self, nodes: Sequence[Node], by: int) -> None:
        for node in nodes:
            node.holds += by
            self._copies.offer(node)
