"""The knowledge tree over device, host and disk as an app opens and closes it."""

import logging
from dataclasses import dataclass

import torch

from engine.cache.eviction import POLICIES
from engine.cache.knowledge_tree import KnowledgeTree
from engine.cache.tier import Store, Tier
from engine.cache.tiers.stores import DiskStore, MemoryStore
from engine.cache.tiers.write_behind import WriteBehind
from engine.types import ChunkKV
from store.errors import StoreFull
from store.types import BlobStore

PATIENCE_S = 10.0  # for what is not written when the app closes
CPU = torch.device("cpu")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CacheHierarchyConfig:
    """Budgets in bytes; 0 leaves a tier out of use.

    device_bytes  only where the primary runs on a GPU
    policy        a name in engine.cache.eviction.POLICIES
    bits          8 or 16: of KV on disk
    """

    host_bytes: int
    disk_bytes: int
    device_bytes: int = 0
    policy: str = "pgdsf"
    bits: int = 16


class CacheHierarchy:
    """The tree with its disk behind a writer's thread. Opening takes in what an earlier process left.

    blobs   None goes without a disk: KV is then lost at restart
    device  of the primary
    """

    def __init__(self, config: CacheHierarchyConfig, blobs: BlobStore | None, device: torch.device) -> None:
        self._writer = None
        places: list[tuple[str, int, Store[ChunkKV]]] = [("host", config.host_bytes, MemoryStore(CPU))]
        if device.type != "cpu":
            places.insert(0, ("device", config.device_bytes, MemoryStore(device)))
        if blobs is not None:
            disk = DiskStore(blobs, config.bits)
            self._writer = WriteBehind(disk, lambda key: self.tree.lost(key, len(places) - 1))
            places.append(("disk", config.disk_bytes, self._writer))
        self.tree = KnowledgeTree([Tier(*place) for place in places], POLICIES[config.policy]())
        if blobs is not None:
            for key in self.tree.restore(disk.found()):
                disk.delete(key)

    def keep_off_device(self, family: str) -> None:
        """Leave the KV of a family whose model runs on the CPU out of the device's tier."""
        for tier in self.tree.tiers:
            if tier.name == "device":
                tier.closed_to.add(family)

    @property
    def disk_error(self) -> str:
        """Why KV cannot be written, in a sentence; empty while it can."""
        return self._writer.error if self._writer else "There is no disk tier."

    @property
    def nearly_full(self) -> bool:
        """Whether more KV would soon push out what is there: in the slowest tier that takes any."""
        used = [tier for tier in self.tree.tiers if tier.budget_bytes and not (tier.name == "disk" and self.disk_error)]
        return not used or used[-1].size_bytes > 0.9 * used[-1].budget_bytes

    def wait_for_room(self) -> None:
        """Wait until the disk has nearly caught up."""
        if self._writer:
            self._writer.wait_for_room()

    def drain(self) -> None:
        """Wait until everything is written."""
        if self._writer:
            self._writer.drain()

    def close(self) -> None:
        """Write what is waiting, and what was learned of each node."""
        if self._writer is None:
            return
        self._writer.close(PATIENCE_S)
        try:
            self._writer.store.remember(self.tree.records())
        except StoreFull as error:
            log.warning("what was learned about chunk KV is not kept: %s", error)
