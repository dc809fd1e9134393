"""Which node has a copy in which tier: put, evict, pin, drop. The mechanics under the knowledge tree; its caller locks.

Always true between two calls:
- a node's parent lies in the same tier as the node or in a faster one;
- a node leaves a tier only when no child of it lies there or faster (leaf only), nobody holds it, and neither it nor
  one behind it is pinned;
- a tier's bytes are the sum of its copies, at most its budget.
What a deletion takes from under a node takes the node as well.
"""

from collections.abc import Sequence
from typing import Generic

from engine.cache.eviction import Policy
from engine.cache.node import Node, Replica
from engine.cache.tier import KV, Record, Tier
from store.errors import StoreFull


class Replicas(Generic[KV]):
    """Nodes by key, and their copies in tiers (the fastest first) under a replacement policy."""

    def __init__(self, tiers: Sequence[Tier[KV]], policy: Policy) -> None:
        self.tiers, self._policy = tuple(tiers), policy
        self.nodes: dict[str, Node] = {}
        self.by_chunk: dict[str, set[Node]] = {}
        self.pinned: set[Node] = set()

    @property
    def policy(self) -> str:
        """The name of what decides who goes."""
        return type(self._policy).__name__

    def attach(self, node: Node) -> None:
        """Make a node without copies known."""
        self.nodes[node.key] = node
        self.by_chunk.setdefault(node.chunk, set()).add(node)
        if node.parent is not None:
            node.parent.children.add(node)

    def detach(self, node: Node) -> None:
        """Forget a node without copies."""
        self.pin(node, False)
        del self.nodes[node.key]
        self.by_chunk[node.chunk].discard(node)
        if not self.by_chunk[node.chunk]:
            del self.by_chunk[node.chunk]
        if node.parent is not None:
            node.parent.children.discard(node)

    def put(self, node: Node, number: int, kv: KV) -> bool:
        """Copy a node into a tier, evicting what is worth less; return whether it is there now.

        The node and all before it must be held, or be just leaving a faster tier.
        """
        if number in node.copies:
            return True
        tier = self.tiers[number]
        if node.family in tier.closed_to:
            return False
        size = tier.store.size_of(kv)
        if not tier.store.takes_more() or not self.free_space(number, size):
            return False
        try:
            tier.store.put(node.key, kv, self.record(node))
        except StoreFull:
            return False
        self.register(node, number, size)
        return True

    def refresh(self, node: Node, kv: KV) -> None:
        """Put KV of the same size in the place of what a node has in the tiers before the slowest."""
        for number in node.copies:
            if number < len(self.tiers) - 1:
                self.tiers[number].store.put(node.key, kv, self.record(node))

    def register(self, node: Node, number: int, size: int) -> None:
        """Count a copy that the tier's store has."""
        tier, level = self.tiers[number], node.level
        node.copies[number] = Replica(size, self._policy.priority(node, tier.clock), 0)
        tier.size_bytes += size
        tier.nodes += 1
        self._moved(node, level)
        self.offer(node)

    def free_space(self, number: int, size: int) -> bool:
        """Evict from a tier until `size` bytes fit; return whether they do."""
        tier = self.tiers[number]
        if size + self.pinned_bytes(number) > tier.budget_bytes:
            return False
        while tier.size_bytes + size > tier.budget_bytes:
            if (leaf := tier.lowest(number)) is None:
                return False
            if _may_go(leaf, number):
                self._evict(leaf, number)
        return True

    def remove(self, node: Node, number: int) -> None:
        """Take a copy away, held or not, and whatever may no longer stand without it."""
        tier, level = self.tiers[number], node.level
        copy = node.copies.pop(number)
        tier.size_bytes -= copy.size_bytes
        tier.nodes -= 1
        self._moved(node, level)
        for child in list(node.children):
            if child.level < node.level:
                self.drop(child)
        if not node.copies:
            self.detach(node)
        tier.store.delete(node.key)

    def drop(self, node: Node) -> None:
        """Take a node and all behind it out of every tier, held or not."""
        self.take(node, set(range(len(self.tiers))))

    def take(self, node: Node, numbers: set[int]) -> None:
        """Take a node out of some tiers, held or not, and what stands behind it out of these and of all that are
        faster than where the node still lies.
        """
        level = min(node.copies.keys() - numbers, default=len(self.tiers))
        for child in list(node.children):
            self.take(child, numbers | set(range(level)))
        for number in numbers & node.copies.keys():
            self.remove(node, number)

    def pin(self, node: Node, pinned: bool) -> None:
        """Keep a node, and all before it, from being evicted; or let it go again."""
        if node.pinned == pinned:
            return
        node.pinned = pinned
        (self.pinned.add if pinned else self.pinned.discard)(node)
        for one in (node, *node.ancestors()):
            one.pins += 1 if pinned else -1
            self.offer(one)

    def pinned_bytes(self, number: int) -> int:
        """Return the bytes in a tier that pins keep there."""
        kept = {one for node in self.pinned for one in (node, *node.ancestors())}
        return sum(node.copies[number].size_bytes for node in kept if number in node.copies)

    def staying_bytes(self, number: int) -> int:
        """Return the bytes in a tier that cannot leave it now: read, or kept by a pin."""
        here = (node for node in self.nodes.values() if node.stays)
        return sum(node.copies[number].size_bytes for node in here if number in node.copies)

    def shrink(self, number: int, budget_bytes: int) -> None:
        """Give a tier another budget, at least its `staying_bytes`, and evict down to it."""
        tier = self.tiers[number]
        tier.budget_bytes = budget_bytes
        if self.free_space(number, 0):
            return
        for node in reversed(list(self.nodes.values())):  # what is left has a copy in a faster tier and loses nothing
            if tier.size_bytes <= budget_bytes:
                return
            if number in node.copies and not node.stays:
                self.remove(node, number)

    def update_priorities(self, node: Node) -> None:
        """Give every copy its priority of now."""
        for number, copy in node.copies.items():
            copy.priority = self._policy.priority(node, self.tiers[number].clock)
        self.offer(node)

    def offer(self, node: Node) -> None:
        """Let a node go from where it may go."""
        for number, copy in node.copies.items():
            if _may_go(node, number):
                self.tiers[number].offer(node, copy)
                self.tiers[number].compact(number)

    def restore(self, found: Sequence[tuple[str, int, Record]]) -> None:
        """Take in what the slowest store has: key, bytes and record of each, as far as paths and the budget reach."""
        last, waiting = len(self.tiers) - 1, list(found)
        while ready := [one for one in waiting if one[2].parent is None or one[2].parent in self.nodes]:
            for key, size_bytes, record in ready:
                parent = self.nodes[record.parent] if record.parent is not None else None
                node = Node(key, record.chunk, parent, record.tokens, len(self.tiers), record.family)
                node.remember(record.frequency, record.misses, record.cost)
                self.attach(node)
                self.register(node, last, size_bytes)
            waiting = [one for one in waiting if one[0] not in self.nodes]
        self.free_space(last, 0)

    def records(self) -> dict[str, tuple[int, Record]]:
        """Return bytes and record of every node that lies in the slowest tier."""
        last = len(self.tiers) - 1
        nodes = (node for node in self.nodes.values() if last in node.copies)
        return {node.key: (node.copies[last].size_bytes, self.record(node)) for node in nodes}

    @staticmethod
    def record(node: Node) -> Record:
        """Return what a store keeps beside the node's KV."""
        parent = node.parent.key if node.parent else None
        return Record(node.chunk, parent, node.tokens, *node.worth(), node.family)

    def _evict(self, leaf: Node, number: int) -> None:
        tier = self.tiers[number]
        tier.clock = max(tier.clock, leaf.copies[number].priority)
        if number + 1 < len(self.tiers) and number + 1 not in leaf.copies:
            kv = tier.store.get(leaf.key)
            for slower in range(number + 1, len(self.tiers)):
                if self.put(leaf, slower, kv):
                    break
        self.remove(leaf, number)

    def _moved(self, node: Node, level: int) -> None:
        """Tell the parent that its child's fastest copy was at `level` and is elsewhere now."""
        parent = node.parent
        if parent is None or node.level == level:
            return
        for number in range(node.level, level):
            parent.near[number] += 1
        for number in range(level, node.level):
            parent.near[number] -= 1
        self.offer(parent)


def _may_go(node: Node, number: int) -> bool:
    return not node.stays and node.near[number] == 0
