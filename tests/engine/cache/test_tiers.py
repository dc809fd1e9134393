"""Tiers over a real disk: asynchronous writes, kills at random moments, and disks that fail."""

import errno
import os
import signal
import sqlite3
import time
from random import Random
from threading import Event

import pytest
import torch

from engine.cache.admin import CacheAdmin
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig, DiskStore, WriteBehind
from engine.cache.tier import Record
from engine.types import ChunkKV
from store.errors import StoreFull
from store.kv.blobs import DiskBlobs
from tests.support.doubles import MemoryBlobs, make_hierarchy
from tests.support.trees import all_keys

CPU = torch.device("cpu")
CONFIG = CacheHierarchyConfig(2**20, 2**20)
RECORD = Record("a1", None, 8)


def kv(key, tokens=8):
    """The KV of a key; another key has other bytes."""
    generator = torch.Generator().manual_seed(int(key[:8], 16))
    return ChunkKV(*torch.randn(2, 2, 2, tokens, 4, generator=generator).to(torch.bfloat16), start=3)


def is_equal(one, other):
    return torch.equal(one.keys, other.keys) and torch.equal(one.values, other.values) and one.start == other.start


def insert_on_disk(cache, key="a1", ms_per_token=1.0):
    """Insert a chunk and copy it to the slowest tier; return its node."""
    node = cache.tree.insert(key, Record(key, None, 8), kv(key), ms_per_token)
    assert cache.tree.replicate(key)
    return node


def read_all(cache):
    """Read and check every node; return how many were readable."""
    count = 0
    for key in all_keys(cache.tree):
        with cache.tree.pinned_while([key]) as nodes:
            for node in nodes:
                if (read := cache.tree.read(node)) is not None:
                    assert is_equal(read[0], kv(key))
                    count += 1
    return count


def write_forever(folder, seed, started):
    """Insert, replicate, evict and delete paths of chunks; close the pipe `started` after the first write."""
    rng = Random(seed)
    cache = CacheHierarchy(CacheHierarchyConfig(host_bytes=20 * 512, disk_bytes=30 * 512), DiskBlobs(folder), CPU)
    while True:
        parent = None
        for _ in range(rng.randint(1, 3)):
            key = f"{rng.randrange(1, 60):08x}{'' if parent is None else parent[:8]}"
            if cache.tree.insert(key, Record(key[:8], parent, 8), kv(key), 1.0) is None:
                break
            cache.tree.replicate(key)
            parent = key
        if started is not None:
            cache.drain()
            os.close(started)
            started = None
        if rng.random() < 0.1:
            cache.tree.delete(f"{rng.randrange(1, 60):08x}")


@pytest.mark.parametrize("kills", [25, pytest.param(100, marks=pytest.mark.slow)])
def test_a_killed_process_leaves_nothing_torn(tmp_path, kills):
    """After a kill at a random moment the folder opens, and no wrong byte is read."""
    rng, readable = Random(1), 0
    for number in range(kills):
        reading, started = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                write_forever(tmp_path / "kv", number, started)
            finally:
                os._exit(1)
        os.close(started)
        if number % 2:  # the other half may be killed while it opens the folder
            os.read(reading, 1)  # returns when the child closes its end
        time.sleep(rng.uniform(0.0, 0.06))  # the random moment
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        os.close(reading)
        blobs = DiskBlobs(tmp_path / "kv")
        cache = CacheHierarchy(CacheHierarchyConfig(host_bytes=0, disk_bytes=2**30), blobs, CPU)
        readable += read_all(cache)
        assert set(blobs.notes()) == {f"10{key}" for key in all_keys(cache.tree)}
        cache.close()
        blobs.close()
    assert readable > kills


def test_kv_and_statistics_outlive_a_restart(tmp_path):
    blobs = DiskBlobs(tmp_path)
    cache = CacheHierarchy(CONFIG, blobs, CPU)
    node = insert_on_disk(cache, ms_per_token=2.5)
    cache.tree.record_hit([node])
    cache.close()
    again = CacheHierarchy(CONFIG, blobs, CPU)
    (node,) = again.tree.match_prefix(["a1"])
    assert (node.frequency, node.ms_per_token, node.level) == (2, 2.5, 1)
    assert read_all(again) == 1


@pytest.mark.parametrize("note", ["", "[]", '{"bits": 16}', '{"bits": 16, "size_bytes": 9, "other": 1}'])
def test_blobs_of_another_version_are_removed(note):
    blobs = MemoryBlobs()
    blobs.put("10a1", {"keys": torch.zeros(1)}, note)
    assert not make_hierarchy(blobs=blobs).tree.nodes and not blobs.tensors


def test_kv_of_another_precision_is_removed():
    blobs = MemoryBlobs()
    cache = make_hierarchy(host_bytes=0, blobs=blobs, bits=8)
    cache.tree.insert("a1", RECORD, kv("a1"), 1.0)
    cache.drain()
    assert len(make_hierarchy(blobs=blobs, bits=8).tree.nodes) == 1
    assert not make_hierarchy(blobs=blobs, bits=16).tree.nodes and not blobs.tensors


def test_a_disk_that_becomes_read_only_disables_the_disk_tier_only(tmp_path, monkeypatch):
    cache = CacheHierarchy(CONFIG, DiskBlobs(tmp_path), CPU)

    def fail(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        insert_on_disk(cache)
        cache.drain()
    assert cache.tree.tiers[1].num_nodes == 0
    assert "Read-only" in cache.disk_error and read_all(cache) == 1
    insert_on_disk(cache, "b2")
    cache.drain()
    assert cache.disk_error == "" and cache.tree.tiers[1].num_nodes == 1


@pytest.mark.parametrize("error", [RuntimeError("no memory"), sqlite3.OperationalError("disk I/O error")])
def test_the_writer_thread_survives_any_error(error):
    class Broken(MemoryBlobs):
        def put(self, key, tensors, note=""):
            raise error

    cache = make_hierarchy(host_bytes=2**20, blobs=Broken())
    insert_on_disk(cache)
    cache.drain()
    cache.tree.delete("a1")
    cache.tree.insert("a1", RECORD, kv("a1"), 1.0)
    assert cache.disk_error == str(error) and read_all(cache) == 1
    cache.close()


def test_kv_can_be_deleted_from_a_disk_that_cannot_be_written(tmp_path):
    blobs = DiskBlobs(tmp_path)
    cache = CacheHierarchy(CONFIG, blobs, CPU)
    insert_on_disk(cache)
    cache.drain()
    blobs.index.execute("PRAGMA query_only = ON")
    cache.tree.delete("a1")
    assert not cache.tree.nodes and cache.tree.tiers[1].size_bytes == 0
    assert not list(tmp_path.glob("*.safetensors"))
    blobs.close()
    assert not DiskBlobs(tmp_path).notes()


def test_without_a_disk_everything_stays_in_memory():
    cache = CacheHierarchy(CONFIG, None, CPU)
    insert_on_disk(cache)
    assert cache.disk_error
    cache.wait_for_space()
    cache.drain()
    cache.close()
    assert read_all(cache) == 1


def test_a_budget_smaller_than_one_chunk_stores_nothing():
    cache = make_hierarchy(host_bytes=10, disk_bytes=10)
    assert cache.tree.insert("a1", RECORD, kv("a1"), 1.0) is None
    assert not cache.tree.nodes


class SlowStore(DiskStore):
    """Writes once `may_write` is set; `is_writing` is set when a write begins."""

    def __init__(self):
        super().__init__(MemoryBlobs())
        self.may_write, self.is_writing = Event(), Event()

    def put(self, key, kv, record):
        self.is_writing.set()
        assert self.may_write.wait(60)
        super().put(key, kv, record)


@pytest.fixture
def slow_writer():
    store = SlowStore()
    writer = WriteBehind(store, [].append, max_queued_bytes=kv("a1").size_bytes)
    yield writer, store
    store.may_write.set()
    writer.close(60)


def test_queued_kv_is_read_from_the_queue(slow_writer):
    writer, store = slow_writer
    writer.put("a1", kv("a1"), RECORD)
    assert is_equal(writer.get("a1"), kv("a1"))
    with pytest.raises(KeyError):
        store.get("a1")


def test_a_full_queue_refuses_kv(slow_writer):
    writer, _ = slow_writer
    for key in ("a1", "b2"):
        writer.put(key, kv(key), RECORD)
    with pytest.raises(StoreFull, match="too slow"):
        writer.put("c3", kv("c3"), RECORD)


def test_deleting_a_key_that_is_being_written_leaves_nothing(slow_writer):
    writer, store = slow_writer
    writer.put("a1", kv("a1"), RECORD)
    assert store.is_writing.wait(60)
    store.may_write.set()
    writer.delete("a1")
    writer.drain()
    with pytest.raises(KeyError):
        writer.get("a1")


def test_drain_waits_until_losses_are_reported():
    lost, blobs = [], MemoryBlobs()
    blobs.full = True
    writer = WriteBehind(DiskStore(blobs), lost.append)
    writer.put("a1", kv("a1"), RECORD)
    writer.drain()
    assert lost == ["a1"] and "space" in writer.error
    writer.close(60)


def test_kv_of_a_cpu_model_is_never_placed_in_the_gpu_tier():
    config = CacheHierarchyConfig(2**20, 2**20, device_bytes=2**20)
    cache = CacheHierarchy(config, MemoryBlobs(), torch.device("meta"))  # "meta" tensors have no data
    cache.exclude_from_device("auxiliary")
    cache.tree.insert("a1", Record("a1", None, 8, family="primary"), kv("a1"), 1.0)
    cache.tree.insert("b2", Record("b2", None, 8, family="auxiliary"), kv("b2"), 1.0)
    with cache.tree.pinned_while(["b2"]) as nodes:
        read, tier = cache.tree.read(nodes[0])
    assert is_equal(read, kv("b2")) and tier == "host"
    names = [tier.name for tier in cache.tree.tiers]
    assert [names[cache.tree.match_prefix([key])[0].level] for key in ("a1", "b2")] == ["device", "host"]
    cache.close()


def test_reading_returns_the_replica_that_was_promoted_to_the_gpu():
    cache = CacheHierarchy(CacheHierarchyConfig(2**20, 2**20, device_bytes=1), MemoryBlobs(), torch.device("meta"))
    cache.tree.insert("a1", Record("a1", None, 8, family="primary"), kv("a1"), 1.0)  # the GPU tier is too small
    CacheAdmin(cache.tree).set_budgets({"device": 2**20})
    with cache.tree.pinned_while(["a1"]) as nodes:
        reads = [cache.tree.read(nodes[0]) for _ in range(2)]
    assert [(read.keys.device.type, tier) for read, tier in reads] == [("meta", "host"), ("meta", "device")]
    cache.close()


def test_queued_kv_is_in_host_memory():
    class OnDevice(ChunkKV):
        def to(self, device):
            moves.append(device)
            return super().to(device)

    moves, original = [], kv("a1")
    writer = WriteBehind(DiskStore(MemoryBlobs()), [].append)
    writer.put("a1", OnDevice(original.keys, original.values, original.start), RECORD)
    writer.drain()
    assert moves == [CPU] and is_equal(writer.get("a1"), original)
    writer.close(60)
