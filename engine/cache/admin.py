"""Administration of the knowledge tree: take a snapshot, pin, evict, change budgets, and measure what chunks take.

A pin ends when its node is removed or the tree closes. Deleting a chunk, clearing a tier and losing a file remove
pinned nodes too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.cache.knowledge_tree import KnowledgeTree
from engine.cache.node import Node
from engine.cache.replicas import Replicas
from engine.errors import NotCached, PassageInUse


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A node's KV in one tier, with its eviction priority there."""

    tier: str
    size_bytes: int
    priority: float


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One node of the tree.

    key               identifies the path
    parent            key of the parent; None at depth 1
    chunk             identifies the last chunk
    namespace         shared by all nodes of one model and prefix
    replicas          the fastest tier first
    frequency         uses, including earlier processes
    ms_per_token      mean time to compute one of its tokens
    age               uses of any node since its last one; None if this process never used it
    pinned            by the user
    protected_by_pin  the node or a descendant is pinned
    in_use            a request is reading it
    """

    key: str
    parent: str | None
    chunk: str
    namespace: str
    tokens: int
    replicas: tuple[ReplicaInfo, ...]
    frequency: int
    ms_per_token: float
    age: int | None
    pinned: bool
    protected_by_pin: bool
    in_use: bool


@dataclass(frozen=True, slots=True)
class TierInfo:
    """One tier.

    num_nodes    number of replicas in it
    clock        the eviction policy's aging term
    ms_per_byte  measured read time; None before the first read
    """

    name: str
    size_bytes: int
    budget_bytes: int
    num_nodes: int
    clock: float
    ms_per_byte: float | None


@dataclass(frozen=True, slots=True)
class TreeSnapshot:
    """The tree at one moment.

    tiers      the fastest first
    nodes      parents before their children
    use_count  uses of nodes since the process began
    policy     'PGDSF', 'GDSF', 'LRU' or 'LFU'
    """

    tiers: tuple[TierInfo, ...]
    nodes: tuple[NodeInfo, ...]
    use_count: int
    policy: str


@dataclass(frozen=True, slots=True)
class EvictionResult:
    """What an eviction removed from the tiers it was meant for.

    num_replicas  number of replicas
    size_bytes    their size
    num_nodes     nodes that have no replica left in any tier
    """

    num_replicas: int
    size_bytes: int
    num_nodes: int


class CacheAdmin:
    """Administers one knowledge tree; has no state of its own."""

    def __init__(self, tree: KnowledgeTree[Any]) -> None:
        self._tree = tree

    def snapshot(self) -> TreeSnapshot:
        """Return the whole tree as plain data, read atomically."""
        with self._tree.locked() as replicas:
            tiers = tuple(
                TierInfo(tier.name, tier.size_bytes, tier.budget_bytes, tier.num_nodes, tier.clock, tier.ms_per_byte)
                for tier in replicas.tiers
            )
            nodes = tuple(self._node_info(node) for node in replicas.nodes.values() if node.replicas)
            return TreeSnapshot(tiers, nodes, self._tree.use_count, replicas.policy_name)

    def pin(self, key: str, pinned: bool) -> None:
        """Pin or unpin a node; a pin also protects the node's ancestors. Raises NotCached."""
        with self._tree.locked() as replicas:
            replicas.pin(_find_node(replicas, key), pinned)

    def evict(self, key: str, tier: str | None = None) -> EvictionResult:
        """Evict a node and its descendants from one tier or from all.

        Raises NotCached, and PassageInUse if one of them is being read or pinned; nothing is evicted then.
        """
        with self._tree.locked() as replicas:
            node = _find_node(replicas, key)
            if any(each.ref_count for each in _subtree(node)):
                raise PassageInUse("A request is reading this passage, or one that was computed after it.")
            if node.pin_count:
                raise PassageInUse("This passage, or one that was computed after it, is pinned.")
            levels = list(range(len(replicas.tiers))) if tier is None else [_find_level(replicas, tier)]
            before = _totals(replicas, levels)
            replicas.remove_from(node, set(levels))
            return _difference(before, _totals(replicas, levels))

    def set_budgets(self, budgets: Mapping[str, int]) -> EvictionResult:
        """Change tiers' budgets and evict down to them; evicted KV moves to slower tiers.

        budgets  bytes by the tier's name

        Raises PassageInUse if a budget is below what is being read or pinned, and ValueError for a negative budget or
        an unknown tier; nothing changes then.
        """
        with self._tree.locked() as replicas:
            by_level = {_find_level(replicas, tier): budget_bytes for tier, budget_bytes in budgets.items()}
            for level, budget_bytes in by_level.items():
                if budget_bytes < 0:
                    raise ValueError(f"a budget must not be negative, got {budget_bytes}")
                if (protected := replicas.protected_bytes(level)) > budget_bytes:
                    raise PassageInUse(f"{protected / 1e6:,.0f} MB of this tier are pinned or being read.")
            before = _totals(replicas, list(by_level))
            for level in sorted(by_level, reverse=True):  # the slowest first: it may receive what the others evict
                replicas.set_budget(level, by_level[level])
            return _difference(before, _totals(replicas, list(by_level)))

    def _node_info(self, node: Node) -> NodeInfo:
        tiers = self._tree.tiers
        return NodeInfo(
            key=node.key,
            parent=node.parent.key if node.parent else None,
            chunk=node.chunk,
            namespace=node.namespace,
            tokens=node.tokens,
            replicas=tuple(
                ReplicaInfo(tiers[level].name, replica.size_bytes, replica.priority)
                for level, replica in sorted(node.replicas.items())
            ),
            frequency=node.frequency,
            ms_per_token=node.ms_per_token,
            age=self._tree.use_count - node.last_use if node.last_use else None,
            pinned=node.pinned,
            protected_by_pin=node.pin_count > 0,
            in_use=node.ref_count > 0,
        )


def chunk_bytes(tree: KnowledgeTree[Any], chunks: Iterable[str]) -> dict[str, int]:
    """Return the bytes, by the tier's name, that deleting chunks would free; reads no KV and changes nothing.

    chunks  keys as `ChunkCache.all_chunk_keys` returns them
    """
    bytes_by_tier = {tier.name: 0 for tier in tree.tiers}
    with tree.locked() as replicas:
        nodes = {
            descendant for chunk in chunks for node in replicas.by_chunk.get(chunk, ()) for descendant in _subtree(node)
        }
        for node in nodes:
            for level, replica in node.replicas.items():
                bytes_by_tier[tree.tiers[level].name] += replica.size_bytes
    return bytes_by_tier


def _find_node(replicas: Replicas[Any], key: str) -> Node:
    node = replicas.nodes.get(key)
    if node is None:
        raise NotCached("This passage is no longer in the cache.")
    return node


def _find_level(replicas: Replicas[Any], tier: str) -> int:
    names = [each.name for each in replicas.tiers]
    if tier not in names:
        raise ValueError(f"unknown tier {tier!r}; the tiers are {', '.join(names)}")
    return names.index(tier)


def _subtree(node: Node) -> list[Node]:
    nodes = [node]
    for each in nodes:
        nodes.extend(each.children)
    return nodes


def _totals(replicas: Replicas[Any], levels: Sequence[int]) -> tuple[int, int, int]:
    """Return the number of replicas in some tiers, their bytes, and the number of nodes of the tree."""
    tiers = [replicas.tiers[level] for level in levels]
    return sum(tier.num_nodes for tier in tiers), sum(tier.size_bytes for tier in tiers), len(replicas.nodes)


def _difference(before: tuple[int, int, int], after: tuple[int, int, int]) -> EvictionResult:
    return EvictionResult(*(old - new for old, new in zip(before, after, strict=True)))
