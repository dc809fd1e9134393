"""Placement of nodes in tiers: insert, evict, pin and remove replicas. The knowledge tree locks; this module does not.

Invariants between two calls:
- a node's parent has a replica in the same tier as the node or in a faster one;
- a policy evicts a node from a tier only if no child has a replica there or in a faster tier (leaves first), the node
  has no readers, and neither it nor a descendant is pinned;
- a tier's `size_bytes` is the sum over its replicas and at most its budget.
Deleting a node deletes its descendants.
"""

from collections.abc import Iterable, Sequence
from typing import Generic

from engine.cache.eviction import Policy
from engine.cache.node import Node, NodeKey, Replica
from engine.cache.tier import KV, Record, Tier
from store.errors import StoreFull


class Replicas(Generic[KV]):
    """All nodes, and their replicas in the tiers."""

    def __init__(self, tiers: Sequence[Tier[KV]], policy: Policy) -> None:
        self.tiers = tuple(tiers)  # the fastest first; a level is an index into them
        self.nodes: dict[str, Node] = {}  # by key, parents before their children
        self.by_chunk: dict[str, set[Node]] = {}  # nodes whose last chunk is the key
        self._pinned: set[Node] = set()
        self._policy = policy

    def attach(self, key: NodeKey) -> Node:
        """Add a node that has no replicas yet; its parent must exist."""
        parent = None if key.parent is None else self.nodes[key.parent]
        node = Node(key.key, key.chunk, parent, key.tokens, key.namespace, len(self.tiers))
        self.nodes[node.key] = node
        self.by_chunk.setdefault(node.chunk, set()).add(node)
        if parent is not None:
            parent.children.add(node)
        return node

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
            tier.store.put(node.key, kv, Record.of(node))
        except StoreFull:
            return False
        self.register(node, level, size_bytes)
        return True

    def refresh(self, node: Node, kv: KV) -> None:
        """Replace a node's KV, by KV of the same size, in all tiers but the slowest."""
        for level in node.replicas:
            if level < len(self.tiers) - 1:
                self.tiers[level].store.put(node.key, kv, Record.of(node))

    def register(self, node: Node, level: int, size_bytes: int) -> None:
        """Add a replica that the tier's store already holds."""
        tier = self.tiers[level]
        node.replicas[level] = Replica(size_bytes, self._policy(node, tier.clock))
        tier.size_bytes += size_bytes
        tier.num_nodes += 1
        self.add_candidates([node])

    def free_space(self, level: int, size_bytes: int) -> bool:
        """Evict from a tier until `size_bytes` fit; return whether they do."""
        tier = self.tiers[level]
        pinned = {each for node in self._pinned for each in node.path() if level in each.replicas}
        if size_bytes + sum(node.replicas[level].size_bytes for node in pinned) > tier.budget_bytes:
            return False
        while tier.size_bytes + size_bytes > tier.budget_bytes:
            node = tier.pop_lowest()
            if node is None:
                return False
            if node.is_evictable(level):
                self._evict(node, level)
        return True

    def remove(self, node: Node, level: int) -> None:
        """Remove a replica, protected or not, and every child that would be in a faster tier than its parent."""
        tier = self.tiers[level]
        replica = node.replicas.pop(level)
        replica.entry_id = 0
        tier.size_bytes -= replica.size_bytes
        tier.num_nodes -= 1
        if node.parent is not None:
            self.add_candidates([node.parent])  # it may have no other child in this tier
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
        self._pinned ^= {node}
        for protected in node.path():
            protected.pin_count += 1 if pinned else -1
        self.add_candidates(node.path())

    def set_budget(self, level: int, budget_bytes: int) -> None:
        """Change a tier's budget, to no less than its protected bytes, and evict down to it."""
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
            replica.priority = self._policy(node, self.tiers[level].clock)
        self.add_candidates([node])

    def add_candidates(self, nodes: Iterable[Node]) -> None:
        """Make nodes eviction candidates in every tier that may evict them."""
        for node in nodes:
            for level, replica in node.replicas.items():
                if node.is_evictable(level):
                    self.tiers[level].push_candidate(node, replica)

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
