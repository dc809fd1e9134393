"""Implementation of the Cache page's interface: the knowledge tree with the passages behind its keys."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from backend.interface.cache import CachedPassage, CacheView
from backend.runtime.loader import Runtime, RuntimeLoader
from backend.services.kv_owners import ChunkOwners
from engine.cache.admin import CacheAdmin, EvictionResult, NodeInfo

MAX_MEMORY_FRACTION = 0.75  # of the machine's memory, for one tier


class LocalCacheService:
    """Shows and changes the tree of the loaded runtime; see `backend.interface.cache`.

    blob_folder   of the disk tier
    set_budgets   applies and saves tier budgets, in bytes by tier name
    chunk_owners  which chunk each KV belongs to
    """

    def __init__(
        self,
        loader: RuntimeLoader,
        blob_folder: Path,
        set_budgets: Callable[[Mapping[str, int]], EvictionResult],
        chunk_owners: ChunkOwners,
    ) -> None:
        self._loader = loader
        self._blob_folder = blob_folder
        self._set_budgets = set_budgets
        self._chunk_owners = chunk_owners

    def snapshot(self) -> CacheView:
        with self._loader.borrow() as runtime:
            tree = CacheAdmin(runtime.tiers.tree).snapshot()
            passages, is_complete = self._passages(runtime, tree.nodes)
            return CacheView(
                tiers=tree.tiers,
                max_budget_bytes=tuple(
                    max(each.budget_bytes, self._max_budget(runtime, each.name)) for each in tree.tiers
                ),
                passages=passages,
                policy=tree.policy,
                recent_queries=runtime.engine.stats.recent(),
                totals=runtime.engine.stats.totals(),
                is_complete=is_complete,
            )

    def pin(self, key: str, pinned: bool) -> None:
        with self._loader.borrow() as runtime:
            CacheAdmin(runtime.tiers.tree).pin(key, pinned)

    def evict(self, key: str, tier: str | None = None) -> EvictionResult:
        with self._loader.borrow() as runtime:
            return CacheAdmin(runtime.tiers.tree).evict(key, tier)

    def set_budget(self, tier: str, budget_bytes: int) -> EvictionResult:
        return self._set_budgets({tier: budget_bytes})

    def _passages(self, runtime: Runtime, nodes: Sequence[NodeInfo]) -> tuple[tuple[CachedPassage, ...], bool]:
        """Return each node with its passage, and whether the chunks of all documents have been considered."""
        library = runtime.library
        documents = library.documents()
        self._chunk_owners.retain(documents)
        owners, is_complete = self._chunk_owners.owners(runtime.engine, documents, library.chunks)
        chunk_ids = {owners[node.chunk][0] for node in nodes if node.chunk in owners}
        chunks = library.chunks_by_id(list(chunk_ids))
        passages = []
        for node in nodes:
            chunk_id, role = owners.get(node.chunk, ("", "other"))
            chunk = chunks.get(chunk_id)
            passages.append(CachedPassage(node, chunk, role if chunk else "other"))
        return tuple(passages), is_complete

    def _max_budget(self, runtime: Runtime, tier: str) -> int:
        """Return the bytes that this machine allows for a tier; 0 if unknown."""
        if tier == "disk":
            folder = next(path for path in (self._blob_folder, *self._blob_folder.parents) if path.exists())
            return runtime.tiers.tree.tiers[-1].size_bytes + shutil.disk_usage(folder).free
        device = runtime.models.primary.device
        if tier == "device" and device.type == "cuda":
            return int(MAX_MEMORY_FRACTION * torch.cuda.get_device_properties(device).total_memory)
        try:
            return int(MAX_MEMORY_FRACTION * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        except (AttributeError, ValueError, OSError):  # not available on every system
            return 0
