"""A node of the knowledge tree (RAGCache, arXiv:2404.12457): the KV of one chunk, computed after its ancestors."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field


@dataclass(slots=True)
class Replica:
    """A node's KV in one tier.

    priority  of the eviction policy; the lowest is evicted first
    entry_id  id of the replica's valid entry in the tier's heap; 0 if it has none
    """

    size_bytes: int
    priority: float
    entry_id: int = 0


@dataclass(eq=False, slots=True)
class Node:
    """One chunk sequence and the tiers that hold the KV of its last chunk.

    A level is the index of a tier; level 0 is the fastest.

    key              identifies the path: model, shared prefix and all chunks down to this one, in order
    chunk            identifies the last chunk, whatever its ancestors; equals `key` at depth 1
    parent           None at depth 1
    num_tiers        tiers of the tree
    namespace        shared by all nodes of one model and prefix
    frequency        uses, including earlier processes
    misses           times the chunk was computed at this path
    cost_sum         sum over the misses of the milliseconds that each token took
    replicas         by level; empty only while the node is inserted or removed
    children_within  by level: children with a replica in that tier or a faster one
    ref_count        readers; a node with readers keeps its replicas
    pinned           by the user; the node and its ancestors keep their replicas
    pin_count        pinned nodes in the subtree that starts here
    last_use         the tree's `use_count` at the last use; 0 if this process never used it
    """

    key: str
    chunk: str
    parent: Node | None = field(repr=False)
    tokens: int
    num_tiers: InitVar[int]
    namespace: str = ""
    frequency: int = 0
    misses: int = 0
    cost_sum: float = 0.0
    children: set[Node] = field(default_factory=set, repr=False)
    replicas: dict[int, Replica] = field(default_factory=dict)
    children_within: list[int] = field(init=False)
    ref_count: int = 0
    pinned: bool = False
    pin_count: int = 0
    last_use: int = 0

    def __post_init__(self, num_tiers: int) -> None:
        self.children_within = [0] * num_tiers

    @property
    def level(self) -> int:
        """The fastest level with a replica; the number of tiers if there is none."""
        return min(self.replicas, default=len(self.children_within))

    @property
    def ms_per_token(self) -> float:
        """Mean over the misses of the milliseconds that each token took; 0 if none was measured."""
        return self.cost_sum / self.misses if self.misses else 0.0

    def record_miss(self, ms_per_token: float) -> None:
        """Count one computation of the chunk at this path."""
        self.cost_sum += ms_per_token
        self.misses += 1

    @property
    def is_protected(self) -> bool:
        """Whether no policy may evict the node: it has readers, or it or a descendant is pinned."""
        return self.ref_count > 0 or self.pin_count > 0

    def ancestors(self) -> list[Node]:
        """Return the ancestors, the parent first."""
        ancestors = []
        node = self.parent
        while node is not None:
            ancestors.append(node)
            node = node.parent
        return ancestors
