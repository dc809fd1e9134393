"""The desk behind the Cache page: the knowledge tree's keys turned back into passages."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from backend.interface.cache import CachedPassage, CacheView
from backend.runtime.loader import Runtime, RuntimeLoader
from backend.services.kv_owners import ChunkOwners
from engine.cache.admin import CacheAdmin, Evicted, NodeInfo

MEMORY_SHARE = 0.75  # of what the machine has; models and the system need the rest


class LocalCacheService:
    """Reads the tree of the loaded house.

    folder    where the disk tier's blobs are
    rebudget  gives tiers other budgets, in bytes by name, and remembers them
    filed     whose KV lies under which name
    """

    def __init__(
        self, loader: RuntimeLoader, folder: Path, rebudget: Callable[[Mapping[str, int]], Evicted], filed: ChunkOwners
    ) -> None:
        self._loader, self._folder, self._rebudget, self._filed = loader, folder, rebudget, filed

    def snapshot(self) -> CacheView:
        with self._loader.borrow() as house:
            shown = CacheAdmin(house.tiers.tree).snapshot()
            passages, counted = self._passages(house, shown.nodes)
            return CacheView(
                tiers=shown.tiers,
                limit_bytes=tuple(max(tier.budget_bytes, self._limit(house, tier.name)) for tier in shown.tiers),
                passages=passages,
                policy=shown.policy,
                recent=house.engine.stats.recent(),
                totals=house.engine.stats.totals(),
                counted=counted,
            )

    def pin(self, key: str, pinned: bool) -> None:
        with self._loader.borrow() as house:
            CacheAdmin(house.tiers.tree).pin(key, pinned)

    def evict(self, key: str, tier: str | None = None) -> Evicted:
        with self._loader.borrow() as house:
            return CacheAdmin(house.tiers.tree).evict(key, tier)

    def set_budget(self, tier: str, budget_bytes: int) -> Evicted:
        return self._rebudget({tier: budget_bytes})

    def _passages(self, house: Runtime, nodes: Sequence[NodeInfo]) -> tuple[tuple[CachedPassage, ...], bool]:
        """Return each node with its passage, and whether all passages of the library could be looked up by now."""
        documents = house.documents.documents()
        self._filed.retain(documents)
        owners, counted = self._filed.owners(house.engine, documents, house.documents.chunks)
        found = {facts.key: owners[facts.chunk] for facts in nodes if facts.chunk in owners}
        chunks = house.documents.chunks_by_id(list({chunk_id for _, chunk_id, _ in found.values()}))
        passages = []
        for facts in nodes:
            _, chunk_id, role = found.get(facts.key, ("", "", "other"))
            chunk = chunks.get(chunk_id)
            passages.append(CachedPassage(facts, chunk, role if chunk else "other"))
        return tuple(passages), counted

    def _limit(self, house: Runtime, tier: str) -> int:
        """Return the bytes that the machine could give to a tier; 0 where it does not say."""
        if tier == "disk":
            parent = next(path for path in (self._folder, *self._folder.parents) if path.exists())
            return house.tiers.tree.tiers[-1].size_bytes + shutil.disk_usage(parent).free
        device = house.models.primary.device
        if tier == "device" and device.type == "cuda":
            return int(MEMORY_SHARE * torch.cuda.get_device_properties(device).total_memory)
        try:
            return int(MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        except (AttributeError, ValueError, OSError):  # not every system has these names
            return 0
