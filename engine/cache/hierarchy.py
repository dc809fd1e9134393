"""The tiers of an application: chunk KV in GPU memory, host memory and on disk, there quantized to 8 bits if wanted.

A thread writes to disk, so that no request waits for it. If the process dies, queued chunks become misses.
"""

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from threading import Condition, Thread

import torch

from engine.cache.knowledge_tree import KnowledgeTree
from engine.cache.quantize import from_tensors, to_tensors
from engine.cache.remote import RemoteTier
from engine.cache.tier import Record, Tier
from engine.openmp import release_team
from engine.types import ChunkKV
from store.errors import StoreFull
from store.types import BlobStore, SharedBlobStore

CPU = torch.device("cpu")
DRAIN_S = 10.0  # for the remote tier, whose server may be dead
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CacheHierarchyConfig:
    """Budgets of the tiers in bytes; 0 disables a tier."""

    host_bytes: int
    disk_bytes: int
    device_bytes: int = 0  # used only if the primary model runs on a GPU
    policy: str = "pgdsf"  # key in engine.cache.eviction.POLICIES
    bits: int = 16  # of KV on disk; 8: quantized
    remote_bits: int = 16  # of KV on the server; likewise


class CacheHierarchy:
    """The knowledge tree and its disk writer. The tree starts with the KV that earlier processes left on disk.

    Without `blobs` there is no disk tier, and KV is lost on restart. `device` is the primary model's. `server` shares
    chunk KV with other engines.
    """

    def __init__(
        self,
        config: CacheHierarchyConfig,
        blobs: BlobStore | None,
        device: torch.device,
        server: SharedBlobStore | None = None,
    ) -> None:
        self.remote = RemoteTier(server, config.remote_bits) if server else None
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
        if self._writer:
            self._writer.drain()
        if self.remote:
            self.remote.drain(DRAIN_S)

    def close(self) -> None:
        """Write the queues, and the nodes' statistics to disk."""
        if self.remote:
            self.remote.close()
        if self._writer is None:
            return
        self._writer.close(timeout_s=10)
        try:
            self._writer.store.write_records(self.tree.records())
        except StoreFull as error:
            log.warning("the statistics of chunk KV could not be saved: %s", error)


@dataclass
class MemoryStore:
    device: torch.device
    _kv: dict[str, ChunkKV] = field(default_factory=dict)

    def size_of(self, kv: ChunkKV) -> int:
        return kv.size_bytes

    def can_accept(self) -> bool:
        return True

    def put(self, key: str, kv: ChunkKV, record: Record) -> None:
        self._kv[key] = kv.to(self.device)

    def get(self, key: str) -> ChunkKV:
        return self._kv[key]

    def delete(self, key: str) -> None:
        self._kv.pop(key, None)


@dataclass
class DiskStore:
    """Chunk KV as blobs, each with its record as a JSON note.

    Blob names begin with the bits, so that KV of another precision is never read instead.
    """

    blobs: BlobStore
    bits: int = 16  # 8: quantized

    def size_of(self, kv: ChunkKV) -> int:
        if self.bits == 16:
            return kv.size_bytes
        layers, heads, tokens, head_dim = kv.keys.shape
        return 2 * kv.keys.numel() + 4 * layers * heads * (head_dim + tokens)  # with the fp32 scales

    def put(self, key: str, kv: ChunkKV, record: Record) -> None:
        """Write a blob. Raises StoreFull."""
        self.blobs.put(self._blob_name(key), to_tensors(kv, self.bits), self._note(self.size_of(kv), record))

    def get(self, key: str) -> ChunkKV:
        return from_tensors(self.blobs.get(self._blob_name(key)))

    def delete(self, key: str) -> None:
        self.blobs.delete(self._blob_name(key))

    def list_records(self) -> list[tuple[str, int, Record]]:
        """Return key, bytes and record of all KV in this precision; deletes all other blobs."""
        stored = []
        for name, note in self.blobs.notes().items():
            with suppress(ValueError, KeyError, TypeError):
                fields = json.loads(note)
                size_bytes = int(fields.pop("size_bytes"))
                if fields.pop("bits") == self.bits:
                    stored.append((name[2:], size_bytes, Record(**fields)))
                    continue
            self.blobs.delete(name)
        return stored

    def write_records(self, records: dict[str, tuple[int, Record]]) -> None:
        """Update the notes of blobs; takes bytes and record by key. Raises StoreFull."""
        self.blobs.annotate({self._blob_name(key): self._note(*entry) for key, entry in records.items()})

    def _blob_name(self, key: str) -> str:
        return f"{self.bits:02x}{key}"

    def _note(self, size_bytes: int, record: Record) -> str:
        return json.dumps({"bits": self.bits, "size_bytes": size_bytes, **asdict(record)})


@dataclass(eq=False)
class WriteBehind:
    """A Store that queues its writes to a slower one. Thread-safe."""

    store: DiskStore
    on_lost: Callable[[str], None]  # called from the writer thread with the key of KV that could not be written
    max_queued_bytes: int = 256 * 2**20  # more is refused; the queue may exceed it by one entry
    error: str = ""  # why the last write failed; empty after a success

    def __post_init__(self) -> None:
        self._queue: dict[str, tuple[ChunkKV, Record]] = {}  # the oldest first
        self._queued_bytes = 0
        self._writing = ""  # the key that is being written
        self._is_busy = False  # writing, or reporting a loss
        self._closed = False
        self._changed = Condition()
        self._thread = Thread(target=self._run, name="kv writer", daemon=True)
        self._thread.start()

    def size_of(self, kv: ChunkKV) -> int:
        return self.store.size_of(kv)

    def can_accept(self) -> bool:
        """Return whether the queue has space; a slow disk may fall behind."""
        with self._changed:
            return self._queued_bytes <= self.max_queued_bytes and not self._closed

    def put(self, key: str, kv: ChunkKV, record: Record) -> None:
        """Queue KV, copied to the host's memory. Raises StoreFull if the queue is full."""
        kv = kv.to(CPU)
        with self._changed:
            if not self.can_accept():
                raise StoreFull("The disk is too slow for the KV to be written.")
            self._discard(key)
            self._queue[key] = (kv, record)
            self._queued_bytes += kv.size_bytes
            self._changed.notify_all()

    def wait_for_space(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.can_accept() or self._closed)

    def get(self, key: str) -> ChunkKV:
        with self._changed:
            if key in self._queue:
                return self._queue[key][0]
        return self.store.get(key)

    def delete(self, key: str) -> None:
        """Delete a key from the queue and the disk, after a write of it that is in progress."""
        with self._changed:
            self._discard(key)
            self._changed.wait_for(lambda: self._writing != key)
        self.store.delete(key)

    def drain(self, timeout_s: float | None = None) -> None:
        """Wait until the queue is written, and `on_lost` has been called for what failed."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._queue or self._is_busy), timeout_s)

    def close(self, timeout_s: float) -> None:
        """Write the queue for at most `timeout_s`, then stop; the rest is lost."""
        with self._changed:
            self.drain(timeout_s)
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _discard(self, key: str) -> None:
        if key in self._queue:
            kv, _ = self._queue.pop(key)
            self._queued_bytes -= kv.size_bytes
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            release_team()
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._queue or self._closed)
                if self._closed:
                    return
                key, entry = next(iter(self._queue.items()))
                self._writing = key
                self._is_busy = True
            is_written = self._write(key, *entry)
            with self._changed:
                if self._queue.get(key) is entry:  # not replaced in the meantime
                    self._discard(key)
                self._writing = ""
                self._changed.notify_all()
            if not is_written:
                try:
                    self.on_lost(key)  # may call `delete`, so the key must not be marked as being written
                except Exception:
                    log.exception("the loss of chunk KV could not be recorded")

    def _write(self, key: str, kv: ChunkKV, record: Record) -> bool:
        try:
            self.store.put(key, kv, record)
        except Exception as error:  # noqa: BLE001  the thread must survive, or `drain` and `delete` would block
            if not self.error:
                log.warning("chunk KV stays in memory only: %s", error)
            self.error = str(error) or type(error).__name__
            return False
        self.error = ""
        return True
