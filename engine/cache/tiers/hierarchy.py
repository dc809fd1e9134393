"""The cache hierarchy of an application: the knowledge tree over GPU memory, host memory and disk."""

import logging
from dataclasses import dataclass

import torch

from engine.cache.knowledge_tree import KnowledgeTree
from engine.cache.tier import Tier
from engine.cache.tiers.stores import DiskStore, MemoryStore
from engine.cache.tiers.write_behind import WriteBehind
from engine.types import ChunkKV
from store.errors import StoreFull
from store.types import BlobStore

CLOSE_TIMEOUT_S = 10.0  # for writing the queue
CPU = torch.device("cpu")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CacheHierarchyConfig:
    """Budgets of the tiers in bytes; 0 disables a tier."""

    host_bytes: int
    disk_bytes: int
    device_bytes: int = 0  # used only if the primary model runs on a GPU
    policy: str = "pgdsf"  # key in engine.cache.eviction.POLICIES
    bits: int = 16  # of KV on disk; 8: quantized


class CacheHierarchy:
    """The knowledge tree and its disk writer. The tree starts with the KV that earlier processes left on disk.

    Without `blobs` there is no disk tier, and KV is lost on restart. `device` is the primary model's.
    """

    def __init__(self, config: CacheHierarchyConfig, blobs: BlobStore | None, device: torch.device) -> None:
        self._writer: WriteBehind | None = None
        tiers: list[Tier[ChunkKV]] = []
        if device.type != "cpu":
            tiers.append(Tier("device", config.device_bytes, MemoryStore(device)))
        tiers.append(Tier("host", config.host_bytes, MemoryStore(CPU)))
        if blobs is not None:
            disk = DiskStore(blobs, config.bits)
            self._writer = WriteBehind(disk, lambda key: self.tree.record_loss(key, len(tiers) - 1))
            tiers.append(Tier("disk", config.disk_bytes, self._writer))
        self.tree = KnowledgeTree(tiers, config.policy)
        if blobs is not None:
            for key in self.tree.restore(disk.list_records()):
                disk.delete(key)

    def exclude_from_device(self, namespace: str) -> None:
        """Never place a namespace's KV in the GPU tier: its model runs on the CPU."""
        for tier in self.tree.tiers:
            if tier.name == "device":
                tier.excluded_namespaces.add(namespace)

    @property
    def disk_error(self) -> str:
        """Why KV cannot be written to disk, as a sentence; empty if it can."""
        return self._writer.error if self._writer else "There is no disk tier."

    @property
    def is_nearly_full(self) -> bool:
        """Whether the slowest usable tier is over 90 % full, so that more KV would soon evict other KV."""
        tiers = [tier for tier in self.tree.tiers if tier.name != "disk" or not self.disk_error]
        usable = [tier for tier in tiers if tier.budget_bytes]
        return not usable or usable[-1].size_bytes > 0.9 * usable[-1].budget_bytes

    def wait_for_space(self) -> None:
        if self._writer:
            self._writer.wait_for_space()

    def drain(self) -> None:
        """Wait until all queued KV is written."""
        if self._writer:
            self._writer.drain()

    def close(self) -> None:
        """Write the queue and the nodes' statistics to disk."""
        if self._writer is None:
            return
        self._writer.close(CLOSE_TIMEOUT_S)
        try:
            self._writer.store.write_records(self.tree.records())
        except StoreFull as error:
            log.warning("the statistics of chunk KV could not be saved: %s", error)
