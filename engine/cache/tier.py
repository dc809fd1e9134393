"""A tier: a store for KV with a byte budget, an aging clock and a heap of eviction candidates."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, Protocol, TypeVar

from engine.cache.node import Node, Replica

KV = TypeVar("KV")
EMA_WEIGHT = 0.2  # of the newest sample in the measured read time


@dataclass(frozen=True, slots=True)
class Record:
    """A node as stored with its KV, to restore the tree from. The field names are keys of the stored JSON."""

    chunk: str
    parent: str | None
    tokens: int
    frequency: int = 0
    misses: int = 0
    cost: float = 0.0  # `Node.cost_sum`
    family: str = ""  # `Node.namespace`

    @classmethod
    def of(cls, node: Node) -> "Record":
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
    """One level of the cache hierarchy."""

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
