"""A store whose writing happens in a thread of its own, so that no question waits for a disk.

What is not written yet is read from the queue. A process that dies loses what was queued: a miss, no more.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from threading import Condition, Thread

import torch

from engine.cache.tier import Record
from engine.cache.tiers.stores import DiskStore
from engine.types import ChunkKV
from store.errors import StoreFull

CPU = torch.device("cpu")
log = logging.getLogger(__name__)
ROOM_BYTES = 256 * 2**20


class WriteBehind:
    """A Store over a slow one, for any number of threads.

    lost        called with the key of KV that could not be written, from the writer's thread
    room_bytes  queued at most, beside the newest
    trouble     why the last writing failed, in a sentence; empty once one succeeds
    """

    def __init__(
        self, store: DiskStore, lost: Callable[[str], None] = lambda key: None, room_bytes: int = ROOM_BYTES
    ) -> None:
        self.store, self.lost, self._room = store, lost, room_bytes
        self.error = ""
        self._queue: OrderedDict[str, tuple[ChunkKV, Record]] = OrderedDict()
        self._queued_bytes, self._writing, self._closed = 0, "", False
        self._changed = Condition()
        self._thread = Thread(target=self._write_all, name="kv writer", daemon=True)
        self._thread.start()

    def size_of(self, kv: ChunkKV) -> int:
        return self.store.size_of(kv)

    def takes_more(self) -> bool:
        """Return whether the queue has room: the disk may be slower than what it is given."""
        with self._changed:
            return self._queued_bytes <= self._room and not self._closed

    def put(self, key: str, kv: ChunkKV, record: Record) -> None:
        """Queue KV to be written, in the host's memory. Raises StoreFull where the queue has no room for it."""
        kv = kv.to(CPU)
        with self._changed:
            if not self.takes_more():
                raise StoreFull("The disk is slower than what it is given.")
            self._discard(key)
            self._queue[key] = (kv, record)
            self._queued_bytes += kv.size_bytes
            self._changed.notify_all()

    def wait_for_room(self) -> None:
        """Wait until `put` takes more."""
        with self._changed:
            self._changed.wait_for(lambda: self._queued_bytes <= self._room or self._closed)

    def get(self, key: str) -> ChunkKV:
        with self._changed:
            if key in self._queue:
                return self._queue[key][0]
        return self.store.get(key)

    def delete(self, key: str) -> None:
        """Delete a key, written or not; afterwards nothing of it is on disk."""
        with self._changed:
            self._discard(key)
            self._changed.wait_for(lambda: self._writing != key)
        self.store.delete(key)

    def drain(self) -> None:
        """Wait until all that is queued is written, or has failed."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queue and not self._writing)

    def close(self, patience_s: float) -> None:
        """Write what is queued for at most `patience_s`, then stop; what is left is a miss."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queue and not self._writing, patience_s)
            self._closed = True
            self._changed.notify_all()
        self._thread.join(patience_s)

    def _discard(self, key: str) -> None:
        if (gone := self._queue.pop(key, None)) is not None:
            self._queued_bytes -= gone[0].size_bytes
            self._changed.notify_all()

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if self._closed:
                    return
                self._writing = key = next(iter(self._queue))
                kv, record = self._queue[key]
            written = self._write(key, kv, record)
            with self._changed:
                if self._queue.get(key, (None,))[0] is kv:
                    self._discard(key)
                self._writing = ""
                self._changed.notify_all()
            if not written:
                self._tell(key)

    def _write(self, key: str, kv: ChunkKV, record: Record) -> bool:
        try:
            self.store.put(key, kv, record)
        except Exception as error:  # noqa: BLE001  a writer that dies would stop everything that waits for it
            if not self.error:
                log.warning("chunk KV stays in memory only: %s", error)
            self.error = str(error) or type(error).__name__
            return False
        self.error = ""
        return True

    def _tell(self, key: str) -> None:
        try:
            self.lost(key)
        except Exception:
            log.exception("the tree could not be told that KV was not written")
