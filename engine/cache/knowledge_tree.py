"""The knowledge tree of RAGCache (arXiv:2404.12457): a prefix tree over chunk sequences, whose KV is kept in tiers.

A node's KV is exact after its ancestors; at depth 1 it is the chunk's own KV, which any prompt can reuse by content.
KV evicted from a tier is copied to the next slower one, unless that has it already (the paper's swap-out-only-once).
`engine.cache.replicas` lists the invariants.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from time import perf_counter
from typing import Generic

from engine.cache.eviction import POLICIES
from engine.cache.node import Node, NodeKey
from engine.cache.replicas import Replicas
from engine.cache.tier import EMA_WEIGHT, KV, Record, Tier


class KnowledgeTree(Generic[KV]):
    """A prefix tree of chunk KV over tiers of memory and disk, the fastest first. Thread-safe."""

    def __init__(self, tiers: Sequence[Tier[KV]], policy: str = "pgdsf") -> None:
        self.policy = policy  # key in POLICIES
        self.use_count = 0  # the logical time of `Node.last_use`
        self._replicas = Replicas(tiers, POLICIES[policy])
        self._lock = RLock()
        self._deletion_logs: list[list[str]] = []  # one for each block inside `track_deletions`

    @property
    def tiers(self) -> tuple[Tier[KV], ...]:
        return self._replicas.tiers

    def __len__(self) -> int:
        return len(self._replicas.nodes)

    def __contains__(self, key: str) -> bool:
        return key in self._replicas.nodes

    def match_prefix(self, keys: Sequence[str]) -> list[Node]:
        """Return the nodes of the longest cached prefix of a path, given the keys of its nodes from depth 1 on."""
        nodes = []
        with self._lock:
            for key in keys:
                if key not in self:
                    break
                nodes.append(self._replicas.nodes[key])
        return nodes

    @contextmanager
    def pinned_while(self, keys: Sequence[str]) -> Iterator[list[Node]]:
        """Yield the nodes of `match_prefix(keys)` and protect them from eviction inside the block."""
        with self._lock:
            nodes = self.match_prefix(keys)
            self._add_references(nodes, 1)
        try:
            yield nodes
        finally:
            with self._lock:
                self._add_references(nodes, -1)

    @contextmanager
    def locked(self) -> Iterator[Replicas[KV]]:
        """Lock the tree and yield its nodes and replicas, to read or change several of them atomically."""
        with self._lock:
            yield self._replicas

    @contextmanager
    def track_deletions(self) -> Iterator[list[str]]:
        """Yield a list that collects the chunks deleted inside the block, and delete them again at its end.

        A block that computes KV must use it, or a chunk deleted in the meantime would be inserted again.
        """
        deleted: list[str] = []
        with self._lock:
            self._deletion_logs.append(deleted)
        try:
            yield deleted
        finally:
            with self._lock:
                self._deletion_logs = [log for log in self._deletion_logs if log is not deleted]
                for chunk in set(deleted):  # not through `delete`: other blocks have logged the deletion themselves
                    self._delete(chunk)

    def read(self, node: Node, max_ms: float = math.inf) -> tuple[KV, str] | None:
        """Return the KV of a node inside `pinned_while` and the name of its tier; promote it to the fastest tier.

        Read ancestors first. The tree is not locked while the store reads. Returns None if the KV was lost, or if the
        tier's measured speed says that reading takes longer than `max_ms`.
        """
        with self._lock:
            level = node.level
            if level == len(self.tiers):
                return None
            tier = self.tiers[level]
            ms_per_byte = tier.ms_per_byte or 0.0
            if ms_per_byte * node.replicas[level].size_bytes > max_ms:
                tier.ms_per_byte = ms_per_byte * (1 - EMA_WEIGHT)  # or one slow read would stop reads forever
                return None
        began = perf_counter()
        try:
            kv = tier.store.get(node.key)
        except KeyError:
            self.record_loss(node.key, level)
            return self.read(node, max_ms)
        with self._lock:
            if level in node.replicas:
                size_bytes = node.replicas[level].size_bytes
                self._promote(node, kv)
                if node.level < level:
                    kv = self.tiers[node.level].store.get(node.key)  # already on the GPU: no second transfer
                tier.record_read(size_bytes, 1e3 * (perf_counter() - began))  # includes the transfer
        return kv, tier.name

    def insert(self, key: NodeKey, kv: KV, ms_per_token: float) -> Node | None:
        """Insert KV, whose tokens took `ms_per_token` each, into the fastest tier that accepts it, evicting others.

        Counts as a miss and as a use. A node that exists is promoted, and its KV in memory is replaced: that may have
        been quantized on disk. Returns None if no tier accepts the KV or the parent is not in the tree.
        """
        with self._lock:
            if key.parent is not None and key.parent not in self:
                return None
            node = self._replicas.nodes.get(key.key) or self._replicas.attach(key)
            node.misses += 1
            node.cost_sum += ms_per_token
            self.record_hit([node])
            try:
                with self._referenced(node.path()):
                    self._replicas.refresh(node, kv)
                    self._promote(node, kv)
            finally:
                if not node.replicas:
                    self._replicas.detach(node)
            return node if node.replicas else None

    def record_hit(self, nodes: Sequence[Node]) -> None:
        """Count one use of each node."""
        with self._lock:
            self.use_count += 1
            for node in nodes:
                node.frequency += 1
                node.last_use = self.use_count
                self._replicas.update_priorities(node)

    def replicate(self, key: str) -> bool:
        """Copy a node to the slowest tier as well; return whether that tier has it now."""
        last = len(self.tiers) - 1
        with self._lock:
            if (node := self._replicas.nodes.get(key)) is None or last in node.replicas:
                return node is not None
            with self._referenced(node.path()):
                return self._replicas.put(node, last, self.tiers[node.level].store.get(key))

    def delete(self, chunk: str) -> None:
        """Delete all paths that contain a chunk from every tier, protected or not."""
        with self._lock:
            for log in self._deletion_logs:
                log.append(chunk)
            self._delete(chunk)

    def delete_except(self, namespaces: Sequence[str]) -> None:
        """Delete all paths outside the given namespaces from every tier."""
        with self._lock:
            for node in list(self._replicas.nodes.values()):
                if node.namespace not in namespaces:
                    self._replicas.remove_subtree(node)

    def clear(self, level: int | None = None) -> None:
        """Remove all replicas from one tier or from all, protected or not."""
        with self._lock:
            for node in reversed(list(self._replicas.nodes.values())):  # children before their parents
                for each in list(node.replicas) if level is None else [level]:
                    if each in node.replicas:
                        self._replicas.remove(node, each)

    def record_loss(self, key: str, level: int) -> None:
        """Remove a replica whose KV the tier's store does not have."""
        with self._lock:
            if (node := self._replicas.nodes.get(key)) is not None and level in node.replicas:
                self._replicas.remove(node, level)

    def restore(self, stored: Sequence[tuple[str, int, Record]]) -> list[str]:
        """Add what an earlier process left in the slowest tier: key, bytes and record of each node.

        Returns the keys that were not added, because an ancestor is missing or the budget is smaller now.
        """
        last = len(self.tiers) - 1
        with self._lock:
            pending = list(stored)
            while ready := [entry for entry in pending if entry[2].parent is None or entry[2].parent in self]:
                for key, size_bytes, record in ready:
                    identity = NodeKey(key, record.chunk, record.parent, record.tokens, record.family)
                    node = self._replicas.attach(identity)
                    node.frequency, node.misses, node.cost_sum = record.frequency, record.misses, record.cost
                    self._replicas.register(node, last, size_bytes)
                pending = [entry for entry in pending if entry[0] not in self]
            self._replicas.free_space(last, 0)
            return [key for key, _, _ in stored if key not in self]

    def records(self) -> dict[str, tuple[int, Record]]:
        """Return the bytes and record, by key, of every node in the slowest tier."""
        last = len(self.tiers) - 1
        with self._lock:
            nodes = [node for node in self._replicas.nodes.values() if last in node.replicas]
            return {node.key: (node.replicas[last].size_bytes, Record.of(node)) for node in nodes}

    def _delete(self, chunk: str) -> None:
        for node in list(self._replicas.by_chunk.get(chunk, ())):
            self._replicas.remove_subtree(node)

    def _promote(self, node: Node, kv: KV) -> None:
        """Copy a protected node to the fastest tier that accepts it, but none faster than its parent's."""
        for level in range(node.parent.level if node.parent else 0, node.level):
            if self._replicas.put(node, level, kv):
                return

    @contextmanager
    def _referenced(self, nodes: Sequence[Node]) -> Iterator[None]:
        self._add_references(nodes, 1)
        try:
            yield
        finally:
            self._add_references(nodes, -1)

    def _add_references(self, nodes: Sequence[Node], count: int) -> None:
        for node in nodes:
            node.ref_count += count
        self._replicas.add_candidates(nodes)
