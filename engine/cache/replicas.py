"""Placement of nodes in tiers: insert, evict, pin and remove replicas. The knowledge tree locks; this module does not.

Invariants between two calls:
- a node's parent has a replica in the same tier as the node or in a faster one;
- a policy evicts a node from a tier only if no child has a replica there or in a faster tier (leaves first), the node
  has no readers, and neither it nor a descendant is pinned;
- a tier's `size_bytes` is the sum over its replicas and at most its budget.
Deleting a node deletes its descendants.
"""

from collections.abc import Sequence
from typing import Generic

from engine.cache.eviction import Policy
from engine.cache.node import Node, Replica
from engine.cache.tier import KV, Record, Tier
from store.errors import StoreFull


class Replicas(Generic[KV]):
    """All nodes, and their replicas in the tiers.

    tiers     the fastest first; a level is an index into them
    policy    chooses what is evicted
    nodes     by key, parents before their children
    by_chunk  nodes whose last chunk is the key
    pinned    nodes pinned by the user
    """

    def __init__(self, tiers: Sequence[Tier[KV]], policy: Policy) -> None:
        self.tiers = tuple(tiers)
        self.nodes: dict[str, Node] = {}
        self.by_chunk: dict[str, set[Node]] = {}
        self.pinned: set[Node] = set()
        self._policy = policy

    @property
    def policy_name(self) -> str:
        """'PGDSF', 'GDSF', 'LRU' or 'LFU'."""
        return type(self._policy).__name__

    def attach(self, node: Node) -> None:
        """Add a node that has no replicas yet."""
        self.nodes[node.key] = node
        self.by_chunk.setdefault(node.chunk, set()).add(node)
        if node.parent is not None:
            node.parent.children.add(node)

    def detach(self, node: Node) -> None:
        """Remove a node that has no replicas left."""
        self.pin(node, False)
        del self.nodes[node.key]
        self.by_chunk[node.chunk].discard(node)
        if not self.by_chunk[node.chunk]:
            del self.by_chunk[node.chunk]
        if node.parent is not None:
            node.parent.children.discard(node)

    def put(self, node: Node, level: int, kv: KV) -> bool:
        """Store a node's KV in a tier, evicting others if necessary; return whether the tier has it now.

        The node and its ancestors must have readers, or the node must be leaving a faster tier.
        """
        if level in node.replicas:
            return True
        tier = self.tiers[level]
        if node.namespace in tier.excluded_namespaces:
            return False
        size_bytes = tier.store.size_of(kv)
        if not tier.store.can_accept() or not self.free_space(level, size_bytes):
            return False
        try:
            tier.store.put(node.key, kv, self.record(node))
        except StoreFull:
            return False
        self.register(node, level, size_bytes)
        return True

    def refresh(self, node: Node, kv: KV) -> None:
        """Replace a node's KV, by KV of the same size, in all tiers but the slowest."""
        for level in node.replicas:
            if level < len(self.tiers) - 1:
                self.tiers[level].store.put(node.key, kv, self.record(node))

    def register(self, node: Node, level: int, size_bytes: int) -> None:
        """Add a replica that the tier's store already holds."""
        tier = self.tiers[level]
        old_level = node.level
        node.replicas[level] = Replica(size_bytes, self._policy.priority(node, tier.clock))
        tier.size_bytes += size_bytes
        tier.num_nodes += 1
        self._update_parent(node, old_level)
        self.add_candidate(node)

    def free_space(self, level: int, size_bytes: int) -> bool:
        """Evict from a tier until `size_bytes` fit; return whether they do."""
        tier = self.tiers[level]
        if size_bytes + self.pinned_bytes(level) > tier.budget_bytes:
            return False
        while tier.size_bytes + size_bytes > tier.budget_bytes:
            node = tier.pop_lowest()
            if node is None:
                return False
            if _is_evictable(node, level):
                self._evict(node, level)
        return True

    def remove(self, node: Node, level: int) -> None:
        """Remove a replica, protected or not, and every child that would be in a faster tier than its parent."""
        tier = self.tiers[level]
        old_level = node.level
        replica = node.replicas.pop(level)
        replica.entry_id = 0
        tier.size_bytes -= replica.size_bytes
        tier.num_nodes -= 1
        self._update_parent(node, old_level)
        for child in list(node.children):
            if child.level < node.level:
                self.remove_subtree(child)
        if not node.replicas:
            self.detach(node)
        tier.store.delete(node.key)

    def remove_subtree(self, node: Node) -> None:
        """Remove a node and its descendants from every tier, protected or not."""
        self.remove_from(node, set(range(len(self.tiers))))

    def remove_from(self, node: Node, levels: set[int]) -> None:
        """Remove a node from some tiers, protected or not.

        Descendants are removed from the same tiers, and from every tier faster than the node's fastest remaining one.
        """
        fastest = min(node.replicas.keys() - levels, default=len(self.tiers))
        for child in list(node.children):
            self.remove_from(child, levels | set(range(fastest)))
        for level in levels & node.replicas.keys():
            self.remove(node, level)

    def pin(self, node: Node, pinned: bool) -> None:
        """Protect a node and its ancestors from eviction, or end that protection."""
        if node.pinned == pinned:
            return
        node.pinned = pinned
        if pinned:
            self.pinned.add(node)
        else:
            self.pinned.discard(node)
        for protected in (node, *node.ancestors()):
            protected.pin_count += 1 if pinned else -1
            self.add_candidate(protected)

    def pinned_bytes(self, level: int) -> int:
        """Return the bytes of a tier that pins protect."""
        nodes = {protected for node in self.pinned for protected in (node, *node.ancestors())}
        return sum(node.replicas[level].size_bytes for node in nodes if level in node.replicas)

    def protected_bytes(self, level: int) -> int:
        """Return the bytes of a tier that readers or pins protect."""
        nodes = (node for node in self.nodes.values() if node.is_protected and level in node.replicas)
        return sum(node.replicas[level].size_bytes for node in nodes)

    def set_budget(self, level: int, budget_bytes: int) -> None:
        """Change a tier's budget, to no less than its `protected_bytes`, and evict down to it."""
        tier = self.tiers[level]
        tier.budget_bytes = budget_bytes
        if self.free_space(level, 0):
            return
        for node in reversed(list(self.nodes.values())):  # the rest has a replica in a faster tier: nothing is lost
            if tier.size_bytes <= budget_bytes:
                return
            if level in node.replicas and not node.is_protected:
                self.remove(node, level)

    def update_priorities(self, node: Node) -> None:
        """Compute the priority of every replica of a node again, after its statistics changed."""
        for level, replica in node.replicas.items():
            replica.priority = self._policy.priority(node, self.tiers[level].clock)
        self.add_candidate(node)

    def add_candidate(self, node: Node) -> None:
        """Make a node an eviction candidate in every tier that may evict it."""
        for level, replica in node.replicas.items():
            if _is_evictable(node, level):
                self.tiers[level].push_candidate(node, replica)

    def restore(self, stored: Sequence[tuple[str, int, Record]]) -> None:
        """Add the slowest store's content, given as keys, bytes and records.

        Skips records whose parent is missing, then evicts down to the budget.
        """
        last = len(self.tiers) - 1
        pending = list(stored)
        while ready := [entry for entry in pending if entry[2].parent is None or entry[2].parent in self.nodes]:
            for key, size_bytes, record in ready:
                parent = self.nodes[record.parent] if record.parent is not None else None
                node = Node(
                    key,
                    record.chunk,
                    parent,
                    record.tokens,
                    len(self.tiers),
                    namespace=record.family,
                    frequency=record.frequency,
                    misses=record.misses,
                    cost_sum=record.cost,
                )
                self.attach(node)
                self.register(node, last, size_bytes)
            pending = [entry for entry in pending if entry[0] not in self.nodes]
        self.free_space(last, 0)

    def records(self) -> dict[str, tuple[int, Record]]:
        """Return the bytes and record, by key, of every node in the slowest tier."""
        last = len(self.tiers) - 1
        nodes = (node for node in self.nodes.values() if last in node.replicas)
        return {node.key: (node.replicas[last].size_bytes, self.record(node)) for node in nodes}

    @staticmethod
    def record(node: Node) -> Record:
        """Return what a store writes beside the node's KV."""
        parent = node.parent.key if node.parent else None
        return Record(node.chunk, parent, node.tokens, node.frequency, node.misses, node.cost_sum, node.namespace)

    def _evict(self, node: Node, level: int) -> None:
        """Evict a node from a tier; without a replica in the next slower tier, its KV is copied to a slower one."""
        tier = self.tiers[level]
        tier.clock = max(tier.clock, node.replicas[level].priority)
        if level + 1 < len(self.tiers) and level + 1 not in node.replicas:
            kv = tier.store.get(node.key)
            for slower in range(level + 1, len(self.tiers)):
                if self.put(node, slower, kv):
                    break
        self.remove(node, level)

    def _update_parent(self, node: Node, old_level: int) -> None:
        """Update the parent's `children_within` after the node's fastest level changed from `old_level`."""
        parent = node.parent
        if parent is None or node.level == old_level:
            return
        for level in range(node.level, old_level):
            parent.children_within[level] += 1
        for level in range(old_level, node.level):
            parent.children_within[level] -= 1
        self.add_candidate(parent)


def _is_evictable(node: Node, level: int) -> bool:
    return not node.is_protected and node.children_within[level] == 0
