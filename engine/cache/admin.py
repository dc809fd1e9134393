"""What a person may do to the knowledge tree: look at all of it, pin, evict, give a tier another budget.

Policies decide alone otherwise. A pin lasts as long as the tree, which ends with the process and wherever other
settings are loaded, and goes with its node; deleting a chunk, clearing, and losing a blob take a pinned node like any
other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.cache.knowledge_tree import KnowledgeTree
from engine.cache.node import Node
from engine.cache.replicas import Replicas
from engine.errors import NotKept, StaysInCache


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A node's KV in one tier, and what the policy says it is worth there."""

    tier: str
    size_bytes: int
    priority: float


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """All that is known of one node.

    parent        None at depth 1
    copies        the fastest tier first
    frequency     uses, also in earlier processes
    ms_per_token  what computing a token of it took
    age           uses of anything since its last; None if this process never used it
    kept          a pin on it, or on one behind it, keeps it
    held          a question reads it now
    """

    key: str
    parent: str | None
    chunk: str
    family: str
    tokens: int
    copies: tuple[ReplicaInfo, ...]
    frequency: int
    ms_per_token: float
    age: int | None
    pinned: bool
    kept: bool
    held: bool


@dataclass(frozen=True, slots=True)
class TierInfo:
    """One tier: its fill, its clock, and how fast it is read (None until something was)."""

    name: str
    size_bytes: int
    budget_bytes: int
    nodes: int
    clock: float
    ms_per_byte: float | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tree at one moment.

    tiers   the fastest first
    nodes   parents before their children
    uses    of nodes since the process began
    policy  what decides who goes: 'PGDSF', 'GDSF', 'LRU' or 'LFU'
    """

    tiers: tuple[TierInfo, ...]
    nodes: tuple[NodeInfo, ...]
    uses: int
    policy: str


@dataclass(frozen=True, slots=True)
class Evicted:
    """What a person's step took out of the tiers it was meant for: copies and their bytes; `gone`: nodes without any
    copy left.
    """

    copies: int
    size_bytes: int
    gone: int


class CacheAdmin:
    """A person's hand on a tree; without any state of its own."""

    def __init__(self, tree: KnowledgeTree[Any]) -> None:
        self._tree = tree

    def snapshot(self) -> Snapshot:
        """Return the whole tree as plain data, taken at one moment."""
        with self._tree.locked() as copies:
            tiers = tuple(
                TierInfo(tier.name, tier.size_bytes, tier.budget_bytes, tier.nodes, tier.clock, tier.ms_per_byte)
                for tier in copies.tiers
            )
            nodes = tuple(self._facts(node) for node in copies.nodes.values() if node.copies)
            return Snapshot(tiers, nodes, self._tree.uses, copies.policy)

    def pin(self, key: str, pinned: bool) -> None:
        """Keep a node and all before it from being evicted, or let them go again. Raises NotKept."""
        with self._tree.locked() as copies:
            copies.pin(_node(copies, key), pinned)

    def evict(self, key: str, tier: str | None = None) -> Evicted:
        """Take a node out of one tier or all, and what stands behind it as well.

        Raises NotKept; StaysInCache where one of them is read or pinned, and nothing is evicted then.
        """
        with self._tree.locked() as copies:
            node = _node(copies, key)
            if any(one.holds for one in _behind(node)):
                raise StaysInCache("A question is reading this passage, or one that stands behind it.")
            if node.pins:
                raise StaysInCache("This passage, or one that stands behind it, is pinned.")
            numbers = list(range(len(copies.tiers))) if tier is None else [_number(copies, tier)]
            before = _filled(copies, numbers)
            copies.take(node, set(numbers))
            return _difference(before, _filled(copies, numbers))

    def set_budgets(self, budgets: Mapping[str, int]) -> Evicted:
        """Give tiers other budgets, in bytes by name, and evict down to them; what leaves goes to the next slower one.

        Raises StaysInCache where more than that is read or pinned, ValueError below zero and for an unknown tier; then
        nothing changes.
        """
        with self._tree.locked() as copies:
            numbers = {_number(copies, tier): budget_bytes for tier, budget_bytes in budgets.items()}
            for number, budget_bytes in numbers.items():
                if budget_bytes < 0:
                    raise ValueError(f"a budget must not be negative, got {budget_bytes}")
                if (staying := copies.staying_bytes(number)) > budget_bytes:
                    raise StaysInCache(f"{staying / 1e6:,.0f} MB of this tier are pinned, or read by a question.")
            before = _filled(copies, list(numbers))
            for number in sorted(numbers, reverse=True):  # the slowest first: it may have to take in what leaves
                copies.shrink(number, numbers[number])
            return _difference(before, _filled(copies, list(numbers)))

    def _facts(self, node: Node) -> NodeInfo:
        tiers = self._tree.tiers
        return NodeInfo(
            key=node.key,
            parent=node.parent.key if node.parent else None,
            chunk=node.chunk,
            family=node.family,
            tokens=node.tokens,
            copies=tuple(ReplicaInfo(tiers[n].name, c.size_bytes, c.priority) for n, c in sorted(node.copies.items())),
            frequency=node.frequency,
            ms_per_token=node.ms_per_token,
            age=self._tree.uses - node.last_use if node.last_use else None,
            pinned=node.pinned,
            kept=node.pins > 0,
            held=node.holds > 0,
        )


def _node(copies: Replicas[Any], key: str) -> Node:
    node = copies.nodes.get(key)
    if node is None:
        raise NotKept("This passage is no longer in the cache.")
    return node


def _number(copies: Replicas[Any], tier: str) -> int:
    names = [one.name for one in copies.tiers]
    if tier not in names:
        raise ValueError(f"{tier!r} is none of the tiers {', '.join(names)}")
    return names.index(tier)


def _behind(node: Node) -> list[Node]:
    found = [node]
    for one in found:
        found.extend(one.children)
    return found


def _filled(copies: Replicas[Any], numbers: Sequence[int]) -> tuple[int, int, int]:
    tiers = [copies.tiers[number] for number in numbers]
    return sum(tier.nodes for tier in tiers), sum(tier.size_bytes for tier in tiers), len(copies.nodes)


def _difference(before: tuple[int, int, int], after: tuple[int, int, int]) -> Evicted:
    return Evicted(*(one - other for one, other in zip(before, after, strict=True)))
