"""What the Cache page asks for: every passage whose KV is kept, the tiers, and how questions were served from them."""

from dataclasses import dataclass
from typing import Protocol

from engine.cache.admin import Evicted, NodeInfo, TierInfo
from engine.cache.hit_stats import QueryStats, StatsTotals
from store.types import Chunk

__all__ = ["CacheService", "CacheView", "CachedPassage", "Evicted", "NodeInfo", "QueryStats", "TierInfo", "StatsTotals"]


@dataclass(frozen=True, slots=True)
class CachedPassage:
    """One node of the knowledge tree and the passage behind it.

    chunk  None for KV of an earlier library or model: nobody knows its text any more, or not yet (`CacheView.counted`)
    role   'primary', 'auxiliary' (KV of the small model that chooses), 'alone' (computed without the shared prefix,
           for naive reuse), or 'other' where the chunk is not known
    """

    facts: NodeInfo
    chunk: Chunk | None = None
    role: str = "other"


@dataclass(frozen=True, slots=True)
class CacheView:
    """Everything the page shows, at one moment.

    tiers        the fastest first
    limit_bytes  by tier: the largest budget that makes sense on this machine
    passages     parents before their children
    policy       'PGDSF', 'GDSF', 'LRU' or 'LFU'
    recent       how the last few hundred questions were served, oldest first
    counted      False while it is still being found out which passage is whose; look again
    """

    tiers: tuple[TierInfo, ...]
    limit_bytes: tuple[int, ...]
    passages: tuple[CachedPassage, ...]
    policy: str
    recent: tuple[QueryStats, ...]
    totals: StatsTotals
    counted: bool = True


class CacheService(Protocol):
    """The knowledge tree as a person may look at it and change it. Raises ModelNotReady until the models are there."""

    def snapshot(self) -> CacheView:
        """Return the tree as it is now."""
        ...

    def pin(self, key: str, pinned: bool) -> None:
        """Keep a passage and all before it until the app ends or loads other settings, or let it go. Raises NotKept."""
        ...

    def evict(self, key: str, tier: str | None = None) -> Evicted:
        """Take a passage, and what was computed behind it, out of one tier or of all.

        Raises NotKept, or StaysInCache where it is pinned or being read.
        """
        ...

    def set_budget(self, tier: str, budget_bytes: int) -> Evicted:
        """Give a tier another budget, evict down to it at once, and remember it. Raises StaysInCache."""
        ...
