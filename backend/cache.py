"""The desk behind the Cache page: the knowledge tree's keys turned back into passages."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock

import torch

from backend.filed import Named, names_of
from backend.loading import House, Loader
from engine.pipeline import Engine
from engine.tree.control import Control, Evicted
from store.types import Chunk
from ui.desks.cache import CachedPassage, CacheView

MEMORY_SHARE = 0.75  # of what the machine has; models and the system need the rest


class LocalCache:
    """Reads the tree of the loaded house. What each chunk is called there is computed once.

    folder    where the disk tier's blobs are
    rebudget  gives tiers other budgets, in bytes by name, and remembers them
    """

    def __init__(self, loader: Loader, folder: Path, rebudget: Callable[[Mapping[str, int]], Evicted]) -> None:
        self._loader, self._folder, self._lock = loader, folder, Lock()
        self._rebudget = rebudget
        self._engine: Engine | None = None
        self._names: dict[str, tuple[str, Named]] = {}  # by chunk id: its text, and what the tree calls it

    def look(self) -> CacheView:
        house = self._loader.ready()
        shown = Control(house.tiers.tree).snapshot()
        known = self._known(house)
        return CacheView(
            tiers=shown.tiers,
            limit_bytes=tuple(max(tier.budget_bytes, self._limit(house, tier.name)) for tier in shown.tiers),
            passages=tuple(CachedPassage(facts, *known.get(facts.chunk, (None, "other"))) for facts in shown.nodes),
            policy=shown.policy,
            recent=house.engine.served.recent(),
            totals=house.engine.served.totals(),
        )

    def pin(self, key: str, pinned: bool) -> None:
        Control(self._loader.ready().tiers.tree).pin(key, pinned)

    def evict(self, key: str, tier: str | None = None) -> Evicted:
        return Control(self._loader.ready().tiers.tree).evict(key, tier)

    def set_budget(self, tier: str, budget_bytes: int) -> Evicted:
        return self._rebudget({tier: budget_bytes})

    def _known(self, house: House) -> dict[str, tuple[Chunk, str]]:
        """Return chunk and role by the name that the tree has for it; only new chunks are tokenised."""
        with self._lock:
            if self._engine is not house.engine:
                self._engine, self._names = house.engine, {}
            known: dict[str, tuple[Chunk, str]] = {}
            names: dict[str, tuple[str, Named]] = {}
            for document in house.documents.documents():
                for chunk in house.documents.chunks(document.id):
                    text, named = self._names.get(chunk.id, ("", ()))
                    if text != chunk.text:
                        named = names_of(house.engine, chunk.text)
                    names[chunk.id] = chunk.text, named
                    for name, role in named:
                        known.setdefault(name, (chunk, role))
            self._names = names
            return known

    def _limit(self, house: House, tier: str) -> int:
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
