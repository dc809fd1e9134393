"""A tier: a place for KV with a byte budget, a clock of its own, and a heap of what may go."""

import heapq
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from engine.cache.node import Node, Replica

KV = TypeVar("KV")
LEARNING = 0.2  # weight of the newest reading in the measured speed


@dataclass(frozen=True, slots=True)
class Record:
    """What a store keeps beside a node's KV, so that the tree comes back after a restart."""

    chunk: str
    parent: str | None
    tokens: int
    frequency: int = 0
    misses: int = 0
    cost: float = 0.0
    family: str = ""


class Store(Protocol[KV]):
    """Where a tier's bytes are. Losing KV is a miss."""

    def size_of(self, kv: KV) -> int:
        """Return the bytes that `put` would take."""
        ...

    def takes_more(self) -> bool:
        """Return whether `put` would be taken now; asked before anything is evicted for it."""
        ...

    def put(self, key: str, kv: KV, record: Record) -> None: ...

    def get(self, key: str) -> KV:
        """Raise KeyError if it is not there, or not whole."""
        ...

    def delete(self, key: str) -> None: ...


class Tier(Generic[KV]):
    """name          'device', 'host' or 'disk'
    budget_bytes  never exceeded
    clock         the highest priority that was evicted
    ms_per_byte   of reading, measured; None until something was read
    closed_to     families whose KV does not belong here: their model reads it elsewhere
    """

    def __init__(self, name: str, budget_bytes: int, store: Store[KV]) -> None:
        if budget_bytes < 0:
            raise ValueError(f"budget_bytes must not be negative, got {budget_bytes}")
        self.name, self.budget_bytes, self.store = name, budget_bytes, store
        self.size_bytes, self.nodes, self.clock = 0, 0, 0.0
        self.ms_per_byte: float | None = None
        self.closed_to: set[str] = set()
        self._heap: list[tuple[float, int, Node]] = []
        self._entries = 0

    def offer(self, node: Node, copy: Replica) -> None:
        """Let the node go when its priority is the lowest."""
        self._entries += 1
        copy.entry = self._entries
        heapq.heappush(self._heap, (copy.priority, copy.entry, node))

    def lowest(self, number: int) -> Node | None:
        """Take out the offered node of the lowest priority; `number` is this tier's own. Void entries are dropped."""
        while self._heap:
            _, entry, node = heapq.heappop(self._heap)
            if (copy := node.copies.get(number)) is not None and copy.entry == entry:
                return node
        return None

    def compact(self, number: int) -> None:
        """Drop void entries once they are many."""
        if len(self._heap) > 4 * self.nodes + 64:
            copies = ((entry, entry[2].copies.get(number)) for entry in self._heap)
            self._heap = [entry for entry, copy in copies if copy is not None and copy.entry == entry[1]]
            heapq.heapify(self._heap)

    def was_read(self, size_bytes: int, ms: float) -> None:
        """Learn how fast reading is."""
        rate = ms / max(1, size_bytes)
        old = self.ms_per_byte
        self.ms_per_byte = rate if old is None else old + LEARNING * (rate - old)

    def forget(self) -> None:
        """Trust the measured speed a little less, so that a slow moment is not believed for ever."""
        if self.ms_per_byte is not None:
            self.ms_per_byte *= 1 - LEARNING
