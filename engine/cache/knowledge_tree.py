"""The knowledge tree of RAGCache (arXiv:2404.12457): a prefix tree over chunk sequences, whose KV is kept in tiers.

A node's KV is exact after its ancestors; at depth 1 it is the chunk's own KV, which any prompt can reuse by content.
KV evicted from a tier is copied to the next slower one, unless that has it already (the paper's swap-out-only-once).

Invariants between two calls:
- a node's parent has a replica in the same tier as the node or in a faster one;
- a policy evicts a node from a tier only if no child has a replica there or in a faster tier (leaves first), the node
  has no readers, and neither it nor a descendant is pinned;
- a tier's `size_bytes` is the sum over its replicas and at most its budget.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from threading import RLock
from time import perf_counter
from typing import Generic

from engine.cache.eviction import POLICIES
from engine.cache.tier import EMA_WEIGHT, KV, Node, Record, Replica, Tier
from store.errors import StoreFull


class KnowledgeTree(Generic[KV]):
    """A prefix tree of chunk KV over tiers of memory and disk, the fastest first. Thread-safe.

    `pin`, `remove_from` and `set_budget` are for use inside `locked`; see `engine.cache.admin`.
    """

    def __init__(self, tiers: Sequence[Tier[KV]], policy: str = "pgdsf") -> None:
        self.tiers = tuple(tiers)  # a level is an index into them
        self.policy = policy  # key in POLICIES
        self.nodes: dict[str, Node] = {}  # by key, parents before their children
        self.by_chunk: dict[str, set[Node]] = {}  # nodes whose last chunk is the key
        self.use_count = 0  # the logical time of `Node.last_use`
        self._priority = POLICIES[policy]
        self._pinned: set[Node] = set()
        self._deletion_logs: list[list[str]] = []  # one for each block inside `track_deletions`
        self._lock = RLock()

    def __contains__(self, key: str) -> bool:
        return key in self.nodes

    @contextmanager
    def locked(self) -> Iterator["KnowledgeTree[KV]"]:
        """Lock the tree, to read or change several nodes atomically."""
        with self._lock:
            yield self

    def match_prefix(self, keys: Sequence[str]) -> list[Node]:
        """Return the nodes of the longest cached prefix of a path, given the keys of its nodes from depth 1 on."""
        with self._lock:
            return [self.nodes[key] for key in takewhile(self.nodes.__contains__, keys)]

    @contextmanager
    def pinned_while(self, keys: Sequence[str]) -> Iterator[list[Node]]:
        """Yield the nodes of `match_prefix(keys)` and protect them from eviction inside the block."""
        with ExitStack() as references:
            with self._lock:
                nodes = self.match_prefix(keys)
                references.enter_context(self._referenced(nodes))
            yield nodes

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

    def insert(self, key: str, record: Record, kv: KV, ms_per_token: float) -> Node | None:
        """Insert KV, whose tokens took `ms_per_token` each, into the fastest tier that accepts it, evicting others.

        Counts as a miss and as a use. A node that exists is promoted, and its KV in memory is replaced: that may have
        been quantized on disk. Returns None if no tier accepts the KV or the parent is not in the tree.
        """
        with self._lock:
            if record.parent is not None and record.parent not in self.nodes:
                return None
            node = self.nodes.get(key) or self._attach(key, record)
            node.misses += 1
            node.cost_sum += ms_per_token
            self.record_hit([node])
            try:
                with self._referenced(node.path()):
                    for level in node.replicas.keys() - {len(self.tiers) - 1}:
                        self.tiers[level].store.put(node.key, kv, Record.of(node))
                    self._promote(node, kv)
            finally:
                if not node.replicas:
                    self._detach(node)
            return node if node.replicas else None

    def record_hit(self, nodes: Sequence[Node]) -> None:
        with self._lock:
            self.use_count += 1
            for node in nodes:
                node.frequency += 1
                node.last_use = self.use_count
                for level, replica in node.replicas.items():
                    replica.priority = self._priority(node, self.tiers[level].clock)
            self._add_candidates(nodes)

    def replicate(self, key: str) -> bool:
        """Copy a node to the slowest tier as well; return whether that tier has it now."""
        last = len(self.tiers) - 1
        with self._lock:
            if (node := self.nodes.get(key)) is None or last in node.replicas:
                return node is not None
            with self._referenced(node.path()):
                return self._put(node, last, self.tiers[node.level].store.get(key))

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

    def delete(self, chunk: str) -> None:
        """Delete all paths that contain a chunk from every tier, protected or not."""
        with self._lock:
            for log in self._deletion_logs:
                log.append(chunk)
            self._delete(chunk)

    def delete_except(self, namespaces: Sequence[str]) -> None:
        """Delete all paths outside the given namespaces from every tier."""
        with self._lock:
            for node in list(self.nodes.values()):
                if node.namespace not in namespaces:
                    self._remove_subtree(node)

    def clear(self, level: int | None = None) -> None:
        """Remove all replicas from one tier or from all, protected or not."""
        with self._lock:
            for node in reversed(list(self.nodes.values())):  # children before their parents
                for each in list(node.replicas):
                    if level is None or each == level:
                        self._remove(node, each)

    def record_loss(self, key: str, level: int) -> None:
        """Remove a replica whose KV the tier's store does not have."""
        with self._lock:
            if (node := self.nodes.get(key)) is not None and level in node.replicas:
                self._remove(node, level)

    def restore(self, stored: Sequence[tuple[str, int, Record]]) -> list[str]:
        """Add what an earlier process left in the slowest tier: key, bytes and record of each node.

        Returns the keys that were not added, because an ancestor is missing or the budget is smaller now.
        """
        last = len(self.tiers) - 1
        with self._lock:
            pending = list(stored)
            while ready := [entry for entry in pending if entry[2].parent is None or entry[2].parent in self.nodes]:
                for key, size_bytes, record in ready:
                    self._register(self._attach(key, record), last, size_bytes)
                pending = [entry for entry in pending if entry[0] not in self.nodes]
            self._free_space(last, 0)
            return [key for key, _, _ in stored if key not in self.nodes]

    def records(self) -> dict[str, tuple[int, Record]]:
        """Return the bytes and record, by key, of every node in the slowest tier."""
        last = len(self.tiers) - 1
        with self._lock:
            nodes = [node for node in self.nodes.values() if last in node.replicas]
            return {node.key: (node.replicas[last].size_bytes, Record.of(node)) for node in nodes}

    def pin(self, node: Node, pinned: bool) -> None:
        """Protect a node and its ancestors from eviction, or end that protection."""
        if node.pinned == pinned:
            return
        node.pinned = pinned
        self._pinned ^= {node}
        for protected in node.path():
            protected.pin_count += 1 if pinned else -1
        self._add_candidates(node.path())

    def remove_from(self, node: Node, levels: set[int]) -> None:
        """Remove a node from some tiers, protected or not; its descendants from these and from all faster than it."""
        fastest = min(node.replicas.keys() - levels, default=len(self.tiers))
        for child in list(node.children):
            self.remove_from(child, levels | set(range(fastest)))
        for level in levels & node.replicas.keys():
            self._remove(node, level)

    def set_budget(self, level: int, budget_bytes: int) -> None:
        """Change a tier's budget, to no less than its protected bytes, and evict down to it."""
        tier = self.tiers[level]
        tier.budget_bytes = budget_bytes
        if self._free_space(level, 0):
            return
        for node in reversed(list(self.nodes.values())):  # the rest has a replica in a faster tier: nothing is lost
            if tier.size_bytes <= budget_bytes:
                return
            if level in node.replicas and not node.is_protected:
                self._remove(node, level)

    def _attach(self, key: str, record: Record) -> Node:
        """Add a node that has no replicas yet; its parent must exist."""
        parent = None if record.parent is None else self.nodes[record.parent]
        statistics = record.frequency, record.misses, record.cost
        node = Node(key, record.chunk, parent, record.tokens, *statistics, record.family, len(self.tiers))
        self.nodes[key] = node
        self.by_chunk.setdefault(node.chunk, set()).add(node)
        if parent is not None:
            parent.children.add(node)
        return node

    def _detach(self, node: Node) -> None:
        """Remove a node that has no replicas left."""
        self.pin(node, False)
        del self.nodes[node.key]
        self.by_chunk[node.chunk].discard(node)
        if not self.by_chunk[node.chunk]:
            del self.by_chunk[node.chunk]
        if node.parent is not None:
            node.parent.children.discard(node)

    def _promote(self, node: Node, kv: KV) -> None:
        """Copy a protected node to the fastest tier that accepts it, but none faster than its parent's."""
        for level in range(node.parent.level if node.parent else 0, node.level):
            if self._put(node, level, kv):
                return

    def _put(self, node: Node, level: int, kv: KV) -> bool:
        """Store a node's KV in a tier, evicting others if necessary; return whether the tier has it now.

        The node and its ancestors must have readers, or the node must be leaving a faster tier.
        """
        if level in node.replicas:
            return True
        tier = self.tiers[level]
        if node.namespace in tier.excluded_namespaces:
            return False
        size_bytes = tier.store.size_of(kv)
        if not tier.store.can_accept() or not self._free_space(level, size_bytes):
            return False
        try:
            tier.store.put(node.key, kv, Record.of(node))
        except StoreFull:
            return False
        self._register(node, level, size_bytes)
        return True

    def _register(self, node: Node, level: int, size_bytes: int) -> None:
        """Add a replica that the tier's store already holds."""
        tier = self.tiers[level]
        node.replicas[level] = Replica(size_bytes, self._priority(node, tier.clock))
        tier.size_bytes += size_bytes
        tier.num_nodes += 1
        self._add_candidates([node])

    def _free_space(self, level: int, size_bytes: int) -> bool:
        """Evict from a tier until `size_bytes` fit; return whether they do."""
        tier = self.tiers[level]
        pinned = {each for node in self._pinned for each in node.path() if level in each.replicas}
        if size_bytes + sum(node.replicas[level].size_bytes for node in pinned) > tier.budget_bytes:
            return False
        while tier.size_bytes + size_bytes > tier.budget_bytes:
            if (node := tier.pop_lowest()) is None:
                return False
            if node.is_evictable(level):
                self._evict(node, level)
        return True

    def _evict(self, node: Node, level: int) -> None:
        """Evict a node from a tier; without a replica in the next slower tier, its KV is copied to a slower one."""
        tier = self.tiers[level]
        tier.clock = max(tier.clock, node.replicas[level].priority)
        if level + 1 < len(self.tiers) and level + 1 not in node.replicas:
            kv = tier.store.get(node.key)
            for slower in range(level + 1, len(self.tiers)):
                if self._put(node, slower, kv):
                    break
        self._remove(node, level)

    def _remove(self, node: Node, level: int) -> None:
        """Remove a replica, protected or not, and every child that would be in a faster tier than its parent."""
        tier = self.tiers[level]
        replica = node.replicas.pop(level)
        replica.entry_id = 0
        tier.size_bytes -= replica.size_bytes
        tier.num_nodes -= 1
        if node.parent is not None:
            self._add_candidates([node.parent])  # it may have no other child in this tier
        for child in list(node.children):
            if child.level < node.level:
                self._remove_subtree(child)
        if not node.replicas:
            self._detach(node)
        tier.store.delete(node.key)

    def _remove_subtree(self, node: Node) -> None:
        self.remove_from(node, set(range(len(self.tiers))))

    def _delete(self, chunk: str) -> None:
        for node in list(self.by_chunk.get(chunk, ())):
            self._remove_subtree(node)

    @contextmanager
    def _referenced(self, nodes: Sequence[Node]) -> Iterator[None]:
        """Protect nodes from eviction inside the block, as its readers."""
        with self._lock:
            self._add_references(nodes, 1)
        try:
            yield
        finally:
            with self._lock:
                self._add_references(nodes, -1)

    def _add_references(self, nodes: Sequence[Node], count: int) -> None:
        for node in nodes:
            node.ref_count += count
        self._add_candidates(nodes)

    def _add_candidates(self, nodes: Sequence[Node]) -> None:
        """Make nodes eviction candidates in every tier that may evict them."""
        for node in nodes:
            for level, replica in node.replicas.items():
                if node.is_evictable(level):
                    self.tiers[level].push_candidate(node, replica)
