"""Administration of the knowledge tree: take a snapshot, pin, evict, change budgets, and measure what chunks take.

A pin ends with its node or the tree. Deleting a chunk, clearing a tier and losing a file remove pinned nodes too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.cache.knowledge_tree import KnowledgeTree
from engine.cache.tier import Node
from engine.errors import NotCached, PassageInUse


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    tier: str
    size_bytes: int
    priority: float


@dataclass(frozen=True, slots=True)
class NodeInfo:
    key: str  # identifies the path
    parent: str | None  # key of the parent; None at depth 1
    chunk: str  # identifies the last chunk
    tokens: int
    replicas: tuple[ReplicaInfo, ...]  # the fastest tier first
    frequency: int  # uses, including earlier processes
    ms_per_token: float  # mean time to compute one of its tokens
    age: int | None  # uses of any node since its last one; None if this process never used it
    pinned: bool  # by the user
    protected_by_pin: bool  # the node or a descendant is pinned
    in_use: bool  # a request is reading it


@dataclass(frozen=True, slots=True)
class TierInfo:
    """One tier; its fields are those of `Tier`."""

    name: str
    size_bytes: int
    budget_bytes: int
    num_nodes: int
    clock: float
    ms_per_byte: float | None


@dataclass(frozen=True, slots=True)
class TreeSnapshot:
    tiers: tuple[TierInfo, ...]  # the fastest first
    nodes: tuple[NodeInfo, ...]  # parents before their children
    policy: str  # 'PGDSF', 'GDSF', 'LRU' or 'LFU'


@dataclass(frozen=True, slots=True)
class EvictionResult:
    """What an eviction removed from the tiers it was meant for."""

    num_replicas: int
    size_bytes: int  # of the replicas
    num_nodes: int  # nodes that have no replica left in any tier


@dataclass(frozen=True)
class CacheAdmin:
    tree: KnowledgeTree[Any]

    def snapshot(self) -> TreeSnapshot:
        """Return the whole tree as plain data, read atomically."""
        with self.tree.locked() as tree:
            tiers = (
                TierInfo(tier.name, tier.size_bytes, tier.budget_bytes, tier.num_nodes, tier.clock, tier.ms_per_byte)
                for tier in tree.tiers
            )
            nodes = (_node_info(tree, node) for node in tree.nodes.values() if node.replicas)
            return TreeSnapshot(tuple(tiers), tuple(nodes), tree.policy.upper())

    def pin(self, key: str, pinned: bool) -> None:
        """Pin or unpin a node; a pin also protects the node's ancestors. Raises NotCached."""
        with self.tree.locked() as tree:
            tree.pin(_find_node(tree, key), pinned)

    def evict(self, key: str, tier: str | None = None) -> EvictionResult:
        """Evict a node and its descendants from one tier or from all.

        Raises NotCached, and PassageInUse if one of them is being read or pinned; nothing is evicted then.
        """
        with self.tree.locked() as tree:
            node = _find_node(tree, key)
            if any(each.ref_count for each in _subtree(node)):
                raise PassageInUse("A request is reading this passage, or one that was computed after it.")
            if node.pin_count:
                raise PassageInUse("This passage, or one that was computed after it, is pinned.")
            levels = list(range(len(tree.tiers))) if tier is None else [_find_level(tree, tier)]
            before = _totals(tree, levels)
            tree.remove_from(node, set(levels))
            return _difference(before, _totals(tree, levels))

    def set_budgets(self, budgets: Mapping[str, int]) -> EvictionResult:
        """Change tiers' budgets, in bytes by the tier's name, and evict down to them into slower tiers.

        Raises PassageInUse if a budget is below what is being read or pinned, and ValueError for a negative budget or
        an unknown tier; nothing changes then.
        """
        with self.tree.locked() as tree:
            by_level = {_find_level(tree, tier): budget_bytes for tier, budget_bytes in budgets.items()}
            protected = [node for node in tree.nodes.values() if node.is_protected]
            for level, budget_bytes in by_level.items():
                if budget_bytes < 0:
                    raise ValueError(f"a budget must not be negative, got {budget_bytes}")
                size_bytes = sum(node.replicas[level].size_bytes for node in protected if level in node.replicas)
                if size_bytes > budget_bytes:
                    raise PassageInUse(f"{size_bytes / 2**20:,.0f} MiB of this tier are pinned or being read.")
            before = _totals(tree, list(by_level))
            for level in sorted(by_level, reverse=True):  # the slowest first: it may receive what the others evict
                tree.set_budget(level, by_level[level])
            return _difference(before, _totals(tree, list(by_level)))


def chunk_bytes(tree: KnowledgeTree[Any], chunks: Iterable[str]) -> dict[str, int]:
    """Return the bytes, by the tier's name, that deleting chunks would free, given `ChunkCache.all_chunk_keys`."""
    bytes_by_tier = {tier.name: 0 for tier in tree.tiers}
    with tree.locked():
        roots = [node for chunk in chunks for node in tree.by_chunk.get(chunk, ())]
        for node in {each for root in roots for each in _subtree(root)}:
            for level, replica in node.replicas.items():
                bytes_by_tier[tree.tiers[level].name] += replica.size_bytes
    return bytes_by_tier


def _node_info(tree: KnowledgeTree[Any], node: Node) -> NodeInfo:
    replicas = (
        ReplicaInfo(tree.tiers[level].name, replica.size_bytes, replica.priority)
        for level, replica in sorted(node.replicas.items())
    )
    return NodeInfo(
        node.key,
        node.parent.key if node.parent else None,
        node.chunk,
        node.tokens,
        tuple(replicas),
        node.frequency,
        node.ms_per_token,
        age=tree.use_count - node.last_use if node.last_use else None,
        pinned=node.pinned,
        protected_by_pin=node.pin_count > 0,
        in_use=node.ref_count > 0,
    )


def _find_node(tree: KnowledgeTree[Any], key: str) -> Node:
    node = tree.nodes.get(key)
    if node is None:
        raise NotCached("This passage is no longer in the cache.")
    return node


def _find_level(tree: KnowledgeTree[Any], tier: str) -> int:
    names = [each.name for each in tree.tiers]
    if tier not in names:
        raise ValueError(f"unknown tier {tier!r}; the tiers are {', '.join(names)}")
    return names.index(tier)


def _subtree(node: Node) -> list[Node]:
    nodes = [node]
    for each in nodes:
        nodes.extend(each.children)
    return nodes


def _totals(tree: KnowledgeTree[Any], levels: Sequence[int]) -> tuple[int, int, int]:
    """Return the number of replicas in some tiers, their bytes, and the number of nodes of the tree."""
    tiers = [tree.tiers[level] for level in levels]
    return sum(tier.num_nodes for tier in tiers), sum(tier.size_bytes for tier in tiers), len(tree.nodes)


def _difference(before: tuple[int, int, int], after: tuple[int, int, int]) -> EvictionResult:
    return EvictionResult(*(old - new for old, new in zip(before, after, strict=True)))
