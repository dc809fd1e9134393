"""A node of the knowledge tree (RAGCache, arXiv:2404.12457): the KV of one chunk, computed after its ancestors."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NodeKey:
    key: str  # identifies the path: model, shared prefix and all chunks down to this one, in order
    chunk: str  # identifies the last chunk, whatever its ancestors; equals `key` at depth 1
    parent: str | None  # key of the parent; None at depth 1
    tokens: int  # of the last chunk
    namespace: str = ""  # shared by all nodes of one model and prefix


@dataclass(slots=True)
class Replica:
    size_bytes: int
    priority: float  # of the eviction policy; the lowest is evicted first
    entry_id: int = 0  # of its valid entry in the tier's heap; 0 if it has none


@dataclass(eq=False, slots=True)
class Node:
    """One chunk sequence and the tiers that hold the KV of its last chunk.

    A level is the index of a tier; level 0 is the fastest.
    """

    key: str  # this and the next four as in `NodeKey`
    chunk: str
    parent: Node | None = field(repr=False)
    tokens: int
    namespace: str
    num_tiers: int  # of the tree
    frequency: int = 0  # uses, including earlier processes
    misses: int = 0  # times the chunk was computed at this path
    cost_sum: float = 0.0  # sum over the misses of the milliseconds that each token took
    children: set[Node] = field(default_factory=set, repr=False)
    replicas: dict[int, Replica] = field(default_factory=dict)  # by level; empty only during insertion and removal
    ref_count: int = 0  # readers; a node with readers keeps its replicas
    pinned: bool = False  # by the user; the node and its ancestors keep their replicas
    pin_count: int = 0  # pinned nodes in the subtree that starts here
    last_use: int = 0  # the tree's `use_count` at the last use; 0 if this process never used it

    @property
    def level(self) -> int:
        """The fastest level with a replica; the number of tiers if there is none."""
        return min(self.replicas, default=self.num_tiers)

    @property
    def ms_per_token(self) -> float:
        """Mean over the misses of the milliseconds that each token took; 0 if none was measured."""
        return self.cost_sum / self.misses if self.misses else 0.0

    @property
    def is_protected(self) -> bool:
        """Whether no policy may evict the node: it has readers, or it or a descendant is pinned."""
        return self.ref_count > 0 or self.pin_count > 0

    def is_evictable(self, level: int) -> bool:
        """Whether a policy may evict the node from a tier: not protected, and no child there or in a faster tier."""
        return not self.is_protected and all(child.level > level for child in self.children)

    def path(self) -> list[Node]:
        """Return the node and its ancestors, the parent first."""
        path = [self]
        while path[-1].parent is not None:
            path.append(path[-1].parent)
        return path
