"""Interface of the cache details: the knowledge tree with its passages, its tiers, and hit statistics."""

from dataclasses import dataclass
from typing import Protocol

from engine.cache.admin import EvictionResult, NodeInfo, TierInfo
from engine.cache.hit_stats import QueryStats
from store.types import Chunk


@dataclass(frozen=True, slots=True)
class CachedPassage:
    node: NodeInfo
    chunk: Chunk | None = None  # None for KV of another library or model, or if the view is not complete
    role: str = "other"  # or 'primary' or 'auxiliary' (the model), or 'alone': computed without the shared prefix


@dataclass(frozen=True, slots=True)
class KVServerUsage:
    """The server that shares chunk KV with other engines, and what this one did there since its models were loaded."""

    address: str  # host and port
    error: str  # why it is not used now; empty if it works
    hits: int  # passages that were read
    misses: int  # passages that were asked for and not delivered in time
    read_bytes: int
    written_bytes: int
    failures: int  # times that it did not answer


@dataclass(frozen=True, slots=True)
class CacheView:
    tiers: tuple[TierInfo, ...]  # fastest first
    max_budget_bytes: tuple[int, ...]  # by tier: the largest budget that this machine allows
    passages: tuple[CachedPassage, ...]  # parents before their children
    policy: str  # 'PGDSF', 'GDSF', 'LRU' or 'LFU'
    recent_queries: tuple[QueryStats, ...]  # the last few hundred, oldest first
    totals: QueryStats
    kv_server: KVServerUsage | None = None
    is_complete: bool = True  # False while passages are still being matched to nodes; request another view


class CacheService(Protocol):
    """Shows and changes the knowledge tree. Raises ModelNotReady until the models are loaded."""

    def snapshot(self) -> CacheView: ...

    def pin(self, key: str, pinned: bool) -> None:
        """Pin or unpin a node and its ancestors, until the app ends or its settings change. Raises NotCached."""

    def evict(self, key: str, tier: str | None = None) -> EvictionResult:
        """Evict a node and its descendants from one tier or all. Raises NotCached, or PassageInUse if one is in use."""

    def set_budget(self, tier: str, budget_bytes: int) -> EvictionResult:
        """Set the budget of a tier, evict down to it, and save it. Raises PassageInUse if more is in use or pinned."""
