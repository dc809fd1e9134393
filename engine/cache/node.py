"""A node of the knowledge tree: one chunk's KV, computed behind everything on the way to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Replica:
    """A node's KV in one tier.

    entry  number of the heap entry that speaks for it; older entries are void
    """

    size_bytes: int
    priority: float
    entry: int


class Node:
    """What is known of one path, and where its last chunk's KV lies.

    key       names the path: model, shared prefix, and every chunk down to this one, in order
    chunk     names the last chunk alone, whatever stands before it; equals `key` at depth 1
    parent    None at depth 1
    family    names what all nodes of one model and prefix share
    copies    by the number of the tier, 0 the fastest; none only while the node is put in or taken out
    near      by tier: how many children have a copy there or in a faster one
    holds     readers; a held node keeps its copies
    pinned    a person wants it kept, so it keeps its copies as well
    pins      pinned nodes among it and all behind it
    """

    __slots__ = (
        *("key", "chunk", "parent", "family", "children", "tokens", "copies", "near", "holds"),
        *("pinned", "pins", "frequency", "last_use", "misses", "_cost"),
    )

    def __init__(self, key: str, chunk: str, parent: Node | None, tokens: int, tiers: int, family: str = "") -> None:
        self.key, self.chunk, self.parent, self.tokens, self.family = key, chunk, parent, tokens, family
        self.children: set[Node] = set()
        self.copies: dict[int, Replica] = {}
        self.near, self.holds = [0] * tiers, 0
        self.pinned, self.pins = False, 0
        self.frequency, self.last_use, self.misses, self._cost = 0, 0, 0, 0.0

    @property
    def level(self) -> int:
        """The fastest tier with a copy; the number of tiers if there is none."""
        return min(self.copies, default=len(self.near))

    @property
    def ms_per_token(self) -> float:
        """What a token took to compute, mean over the times it was missing; 0 if that was never measured."""
        return self._cost / self.misses if self.misses else 0.0

    def missed(self, ms_per_token: float) -> None:
        """Count one computation of the chunk at this place."""
        self._cost += ms_per_token
        self.misses += 1

    def worth(self) -> tuple[int, int, float]:
        """Return frequency, misses and cost as a restart needs them."""
        return self.frequency, self.misses, self._cost

    def remember(self, frequency: int, misses: int, cost: float) -> None:
        """Take what an earlier process learned."""
        self.frequency, self.misses, self._cost = frequency, misses, cost

    @property
    def stays(self) -> bool:
        """Whether no policy may take a copy of it: it is read, or it or one behind it is pinned."""
        return self.holds > 0 or self.pins > 0

    def ancestors(self) -> list[Node]:
        """Return the nodes before this one, the nearest first."""
        found, node = [], self.parent
        while node is not None:
            found.append(node)
            node = node.parent
        return found
