"""Nodes of the knowledge tree, and the tiers that hold their KV: a store, a byte budget and eviction candidates."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, Protocol, TypeVar

KV = TypeVar("KV")
EMA_WEIGHT = 0.2  # of the newest sample in the measured read time


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

    key: str  # identifies the path: model, shared prefix and all chunks down to this one, in order
    chunk: str  # identifies the last chunk, whatever its ancestors; equals `key` at depth 1
    parent: Node | None = field(repr=False)
    tokens: int  # of the last chunk
    frequency: int  # uses, including earlier processes
    misses: int  # times the chunk was computed at this path
    cost_sum: float  # sum over the misses of the milliseconds that each token took
    namespace: str  # shared by all nodes of one model and prefix
    num_tiers: int  # of the tree
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


@dataclass(frozen=True, slots=True)
class Record:
    """A node as inserted, and as stored with its KV to restore the tree from. The field names are keys of the JSON."""

    chunk: str
    parent: str | None  # key of the parent; None at depth 1
    tokens: int
    frequency: int = 0
    misses: int = 0
    cost: float = 0.0  # `Node.cost_sum`
    family: str = ""  # `Node.namespace`

    @classmethod
    def of(cls, node: Node) -> Record:
        parent = node.parent.key if node.parent else None
        return cls(node.chunk, parent, node.tokens, node.frequency, node.misses, node.cost_sum, node.namespace)


class Store(Protocol[KV]):
    """Where a tier keeps its bytes. Losing KV is allowed: it becomes a miss."""

    def size_of(self, kv: KV) -> int:
        """Return the bytes that `put` would take."""

    def can_accept(self) -> bool:
        """Return whether `put` would succeed now; checked before anything is evicted for it."""

    def put(self, key: str, kv: KV, record: Record) -> None:
        """Store KV, replacing that of the same key. Raises StoreFull."""

    def get(self, key: str) -> KV:
        """Return KV. Raises KeyError if it is missing or damaged."""

    def delete(self, key: str) -> None:
        """Delete KV; a missing key is no error."""


@dataclass(eq=False)
class Tier(Generic[KV]):
    name: str  # 'device', 'host' or 'disk'
    budget_bytes: int  # never exceeded
    store: Store[KV]
    size_bytes: int = 0  # sum over the replicas in this tier
    num_nodes: int = 0  # number of replicas in this tier
    clock: float = 0.0  # GDSF's aging term (engine.cache.eviction): the highest priority evicted so far
    ms_per_byte: float | None = None  # measured read time, exponentially averaged; None before the first read
    excluded_namespaces: set[str] = field(default_factory=set)  # namespaces whose KV is not stored here
    _heap: list[tuple[float, int, Node, Replica]] = field(default_factory=list)
    _entry_ids: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        if self.budget_bytes < 0:
            raise ValueError(f"budget_bytes must not be negative, got {self.budget_bytes}")

    def push_candidate(self, node: Node, replica: Replica) -> None:
        """Make a replica an eviction candidate at its current priority; its earlier heap entry becomes stale."""
        replica.entry_id = next(self._entry_ids)
        heapq.heappush(self._heap, (replica.priority, replica.entry_id, node, replica))
        if len(self._heap) > 4 * self.num_nodes + 64:
            self._heap = [entry for entry in self._heap if entry[3].entry_id == entry[1]]
            heapq.heapify(self._heap)

    def pop_lowest(self) -> Node | None:
        """Remove and return the candidate with the lowest priority; None if there is none."""
        while self._heap:
            _, entry_id, node, replica = heapq.heappop(self._heap)
            if replica.entry_id == entry_id:
                return node
        return None

    def record_read(self, size_bytes: int, ms: float) -> None:
        sample = ms / max(1, size_bytes)
        average = sample if self.ms_per_byte is None else self.ms_per_byte
        self.ms_per_byte = average + EMA_WEIGHT * (sample - average)
