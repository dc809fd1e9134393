"""The remote tier: chunk KV on a server that several engines share.

A request reads what the server has from its last chunk to its first while it computes from the first to the last. It
therefore waits for the server only briefly: a dead one costs a request a small share of its computing time, and a slow
one delivers what it can. A thread writes and deletes, so that no request waits for that.
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from math import inf
from threading import Condition, Thread

import torch

from engine.cache.quantize import from_tensors, to_tensors
from engine.cache.tier import EMA_WEIGHT
from engine.openmp import release_team
from engine.types import ChunkKV
from store.errors import KVServerUnavailable
from store.types import PRESENT, SharedBlobStore

GRACE = 0.1  # of the computing time that a request waits for the server before it computes
MIN_GRACE_S, MAX_GRACE_S = 0.01, 0.5
DEADLINE = 0.7  # of the computing time, after which a request reads no more
MAX_COMPUTE_MS = 60_000.0  # assumed for unknown computing times
RETRY_S = 6.0  # without requests to the server after an error
POLL_S = 0.02  # for chunks that another engine is computing
MAX_QUEUED_BYTES = 256 * 2**20  # of KV to be written; more is not written
BITS = (16, 8)
CPU = torch.device("cpu")
log = logging.getLogger(__name__)


@dataclass
class RemoteStats:
    """Counts of one remote tier since it was opened."""

    hits: int = 0  # chunks that were read
    misses: int = 0  # chunks that were asked for and not delivered in time
    read_bytes: int = 0
    written_bytes: int = 0
    failures: int = 0  # times that the server did not answer, or too late


class Fetch:
    """Chunks that are being read from the server for one request: from the last to the first that it will take.

    sizes       bytes of KV by key, in the order in which they will be taken
    compute_ms  to compute all of them
    """

    def __init__(self, sizes: Mapping[str, int] | None = None, compute_ms: float = 0.0) -> None:
        self.compute_ms = compute_ms
        self._sizes = dict(sizes or {})
        self._began = time.monotonic()
        grace_s = min(MAX_GRACE_S, max(MIN_GRACE_S, GRACE * compute_ms / 1e3))
        self._wait_until = dict.fromkeys(self._sizes, self._began + grace_s)
        self._found: dict[str, ChunkKV] = {}  # and not yet taken
        self._read_bytes = 0
        self._is_patient = True
        self._is_closed = False
        self._changed = Condition()

    @property
    def is_over(self) -> bool:
        """Whether reading more is of no use: all is computed, or it takes too long."""
        return self._is_closed or time.monotonic() > self._began + DEADLINE * self.compute_ms / 1e3

    def compute_share_ms(self, keys: Iterable[str]) -> float:
        """Return the time to compute some of the chunks."""
        return self.compute_ms * sum(self._sizes[key] for key in keys) / max(1, sum(self._sizes.values()))

    def take(self, key: str) -> ChunkKV | None:
        """Return the KV of a key if the server delivers it soon; None if it is to be computed now.

        After the first short wait, a request waits again only if the key is expected within half of its computing
        time, and never again if it did so in vain.
        """
        with self._changed:
            self._wait(key, self._wait_until.get(key, 0.0))
            if key in self._wait_until and self._is_patient:
                max_wait_s = self.compute_share_ms([key]) / 2e3
                if self._seconds_left() < max_wait_s:
                    self._wait(key, time.monotonic() + max_wait_s)
                    self._is_patient = key not in self._wait_until
            self._wait_until.pop(key, None)
            return self._found.pop(key, None)

    def deliver(self, key: str, kv: ChunkKV | None) -> None:
        """Hand over what was read for a key; None if it must be computed."""
        with self._changed:
            if kv is not None:
                self._read_bytes += self._sizes[key]
            if self._wait_until.pop(key, None) is not None and kv is not None:
                self._found[key] = kv
            self._changed.notify_all()

    def expect(self, key: str, seconds: float) -> None:
        """Let `take` wait longer for a key that another engine is computing."""
        with self._changed:
            if key in self._wait_until:
                self._wait_until[key] = time.monotonic() + seconds

    def close(self) -> None:
        """Read no more; what is pending must be computed."""
        with self._changed:
            self._is_closed = True
            self._wait_until.clear()
            self._changed.notify_all()

    def _wait(self, key: str, until: float) -> None:
        while key in self._wait_until and (left_s := until - time.monotonic()) > 0:
            self._changed.wait(left_s)

    def _seconds_left(self) -> float:
        """Return when all keys will have been read at the present speed, which is known after the first chunk."""
        if not self._read_bytes:
            return inf
        pending_bytes = sum(self._sizes[each] for each in self._wait_until)  # those before the key are taken
        return pending_bytes * (time.monotonic() - self._began) / self._read_bytes


class RemoteTier:
    """Reads and writes the KV of this process's models. Thread-safe; no method waits for the server.

    bits  of what is written and read: 16, or 8 for quantized KV, half as large
    """

    def __init__(self, server: SharedBlobStore, bits: int = 16) -> None:
        self.stats = RemoteStats()
        self.address = server.address
        self.error = ""  # why the server is not used now
        self._server = server
        self.bits = bits
        self._ms_per_byte = 0.0  # measured, exponentially averaged
        self._retry_at = 0.0
        self._changed = Condition()
        self._puts: dict[str, ChunkKV] = {}
        self._put_bytes = 0
        self._deletions: list[str] = []
        self._is_writing = False
        self._closed = False
        self._writer = Thread(target=self._write, name="remote kv writer", daemon=True)
        self._writer.start()

    def fetch(self, namespace: str, sizes: Mapping[str, int], compute_ms: float) -> Fetch:
        """Start to read chunks; sizes are the bytes of their KV by key, in the order in which they will be taken.

        Nothing is read if computing them, which takes `compute_ms`, is faster.
        """
        compute_ms = min(compute_ms, MAX_COMPUTE_MS)
        fetch = Fetch(sizes, compute_ms)
        if not sizes or time.monotonic() < self._retry_at:
            fetch.close()
        elif self._ms_per_byte * sum(sizes.values()) * self.bits / 16 > DEADLINE * compute_ms:
            self._ms_per_byte *= 1 - EMA_WEIGHT  # or one slow read would stop reads forever
            fetch.close()
        else:
            Thread(target=self._read, args=(fetch, namespace, sizes), name="remote kv reader", daemon=True).start()
        return fetch

    def put(self, namespace: str, key: str, kv: ChunkKV) -> None:
        """Queue KV to be written, unless the queue is full or the server does not work."""
        with self._changed:
            name = self._name(namespace, key)
            if self._put_bytes < MAX_QUEUED_BYTES and time.monotonic() >= self._retry_at and name not in self._puts:
                self._puts[name] = kv.to(CPU)
                self._put_bytes += kv.size_bytes
                self._changed.notify_all()

    def delete(self, namespace: str, keys: Sequence[str]) -> None:
        """Queue keys to be deleted for all engines, as often as it takes."""
        with self._changed:
            for name in [self._name(namespace, key, bits) for key in keys for bits in BITS]:
                if (kv := self._puts.pop(name, None)) is not None:
                    self._put_bytes -= kv.size_bytes
                self._deletions.append(name)
            self._changed.notify_all()

    def drain(self, timeout_s: float | None = None) -> bool:
        """Wait until the queue is empty; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._puts or self._deletions or self._is_writing), timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write and delete for at most `timeout_s`, then stop; the rest is lost."""
        self.drain(0 if self.error else timeout_s)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if self._deletions:
                log.warning("%d keys could not be deleted from the KV server; they expire there", len(self._deletions))
        self._writer.join(timeout_s)
        self._server.close()

    def _name(self, namespace: str, key: str, bits: int | None = None) -> str:
        return f"{namespace}:{bits or self.bits}:{key}"

    def _read(self, fetch: Fetch, namespace: str, sizes: Mapping[str, int]) -> None:
        keys = {self._name(namespace, key): key for key in reversed(list(sizes))}
        lease_ms = int(1.5 * fetch.compute_ms) + 200
        num_found = 0
        try:
            leased = list(keys)
            while leased and not fetch.is_over:
                left = dict(zip(leased, self._server.claim(leased, lease_ms), strict=True))
                leased_ms = fetch.compute_share_ms(keys[name] for name, ms in left.items() if ms > 0)
                leased = [name for name, ms in left.items() if 0 < ms < leased_ms]
                for name, ms in left.items():
                    if name in leased:
                        fetch.expect(keys[name], ms / 1e3 + 5 * POLL_S)
                    elif ms != PRESENT:
                        fetch.deliver(keys[name], None)
                num_found += self._read_present(fetch, {name: keys[name] for name in left if left[name] == PRESENT})
                if leased:
                    time.sleep(POLL_S)
            self.error = ""
        except KVServerUnavailable as error:
            self._fail(error)
        finally:
            fetch.close()
            self.stats.hits += num_found
            self.stats.misses += len(sizes) - num_found

    def _read_present(self, fetch: Fetch, keys: Mapping[str, str]) -> int:
        """Read values, given the chunk's key by name, while a second thread decodes; return how many were good."""
        began, num_bytes = time.monotonic(), 0

        def decode(name: str, value: bytes) -> bool:
            kv = None
            with suppress(KeyError, ValueError, RuntimeError):
                kv = from_tensors(self._server.decode(name, value) or {})
            if value and kv is None:
                self._server.discard([name])  # before this engine writes it again
            fetch.deliver(keys[name], kv)
            return kv is not None

        with closing(self._server.read(list(keys))) as values, ThreadPoolExecutor(1, "remote kv decoder") as decoder:
            decoded = []
            for name, value in values:
                num_bytes += len(value)
                decoded.append(decoder.submit(decode, name, value))
                if fetch.is_over:
                    break
        if num_bytes:
            sample = 1e3 * (time.monotonic() - began) / num_bytes
            self._ms_per_byte += (EMA_WEIGHT if self._ms_per_byte else 1.0) * (sample - self._ms_per_byte)
            self.stats.read_bytes += num_bytes
        return sum(each.result() for each in decoded)

    def _fail(self, error: Exception) -> None:
        if not self.error:
            log.warning("%s", error)
        self.error = str(error)
        self.stats.failures += 1
        self._retry_at = time.monotonic() + RETRY_S

    def _write(self) -> None:
        with suppress(KVServerUnavailable):
            if warning := self._server.warning():
                log.warning("%s", warning)
        while True:
            release_team()
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._puts or self._deletions or self._closed)
                if self._closed:
                    return
                self._is_writing = True
                deletions = list(self._deletions)
                name, kv = next(iter(self._puts.items()), ("", None))
            try:
                if deletions:
                    self._server.delete(deletions)
                elif kv is not None and self._server.put(name, to_tensors(kv, self.bits)):
                    self.stats.written_bytes += kv.size_bytes * self.bits // 16
                self.error = ""
            except Exception as error:  # noqa: BLE001  the thread must survive, or deletions would be lost
                self._fail(error)
                with self._changed:
                    self._puts.clear()
                    self._put_bytes = 0
                    self._changed.wait_for(lambda: self._closed, RETRY_S)
            else:
                with self._changed:
                    if deletions:
                        del self._deletions[: len(deletions)]
                    elif self._puts.get(name) is kv is not None:
                        del self._puts[name]
                        self._put_bytes -= kv.size_bytes
