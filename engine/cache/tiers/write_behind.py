"""A thread writes to disk, so that no request waits for it. If the process dies, queued chunks become misses."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread

import torch

from engine.cache.tier import Record
from engine.cache.tiers.stores import DiskStore
from engine.types import ChunkKV
from store.errors import StoreFull

CPU = torch.device("cpu")
MAX_QUEUED_BYTES = 256 * 2**20
log = logging.getLogger(__name__)


@dataclass(eq=False)
class WriteBehind:
    """A Store that queues its writes to a slower one. Thread-safe."""

    store: DiskStore
    on_lost: Callable[[str], None]  # called from the writer thread with the key of KV that could not be written
    max_queued_bytes: int = MAX_QUEUED_BYTES  # more is refused; the queue may exceed it by one entry
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
                self._report_loss(key)

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

    def _report_loss(self, key: str) -> None:
        try:
            self.on_lost(key)  # may call `delete`, so the key must not be marked as being written
        except Exception:
            log.exception("the loss of chunk KV could not be recorded")
