"""Tiers on a real disk: written behind the question's back, whole after any kill, and given up without a word lost."""

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
from engine.cache.knowledge_tree import NodeKey
from engine.cache.tier import Record
from engine.cache.tiers.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.cache.tiers.stores import DiskStore
from engine.cache.tiers.write_behind import WriteBehind
from engine.types import ChunkKV
from store.errors import StoreFull
from store.kv.blobs import DiskBlobs
from tests.support.doubles import MemoryBlobs, tiers

CPU = torch.device("cpu")
KILLS = 100
PLACE = NodeKey("a1", "a1", None, 8)


def kv(key, tokens=8):
    """The KV that belongs to a key: another key has other bytes."""
    generator = torch.Generator().manual_seed(int(key[:8], 16))
    return ChunkKV(*torch.randn(2, 2, 2, tokens, 4, generator=generator).to(torch.bfloat16), start=3)


def same(one, other):
    return torch.equal(one.keys, other.keys) and torch.equal(one.values, other.values) and one.start == other.start


def read_all(made):
    found = 0
    for key in list(made.tree._copies.nodes):
        with made.tree.pinned_while([key]) as nodes:
            for node in nodes:
                if (held := made.tree.read(node)) is not None:
                    assert same(held[0], kv(key))
                    found += 1
    return found


def write_for_ever(folder, seed, begun):
    """Insert, replicate, evict and delete paths of chunks until killed; close `begun` once something is written."""
    draw = Random(seed)
    made = CacheHierarchy(CacheHierarchyConfig(host_bytes=20 * 512, disk_bytes=30 * 512), DiskBlobs(folder), CPU)
    while True:
        parent = None
        for _ in range(draw.randint(1, 3)):
            key = f"{draw.randrange(1, 60):08x}{'' if parent is None else parent[:8]}"
            if made.tree.insert(NodeKey(key, key[:8], parent, 8), kv(key), 1.0) is None:
                break
            made.tree.replicate(key)
            parent = key
        if begun is not None:
            made.drain()
            os.close(begun)
            begun = None
        if draw.random() < 0.1:
            made.tree.delete(f"{draw.randrange(1, 60):08x}")


def test_a_killed_process_leaves_nothing_torn(tmp_path):
    """100 kills at random moments: it always opens again, and never a wrong byte is read."""
    draw, found = Random(1), 0
    for number in range(KILLS):
        begins, begun = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                write_for_ever(tmp_path / "kv", number, begun)
            finally:
                os._exit(1)
        os.close(begun)
        if number % 2:  # the others may die while they open
            os.read(begins, 1)  # nothing comes: it is closed
        time.sleep(draw.uniform(0.0, 0.06))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        os.close(begins)
        blobs = DiskBlobs(tmp_path / "kv")
        made = CacheHierarchy(CacheHierarchyConfig(host_bytes=0, disk_bytes=2**30), blobs, CPU)
        found += read_all(made)
        assert set(blobs.notes()) == {f"10{key}" for key in made.tree._copies.nodes}
        made.close()
        blobs.close()
    assert found > KILLS


def test_what_was_written_comes_back_with_what_was_learned(tmp_path):
    blobs = DiskBlobs(tmp_path)
    made = CacheHierarchy(CacheHierarchyConfig(2**20, 2**20), blobs, CPU)
    node = made.tree.insert(PLACE, kv("a1"), 2.5)
    made.tree.replicate("a1")
    made.tree.record_hit([node])
    made.close()
    again = CacheHierarchy(CacheHierarchyConfig(2**20, 2**20), blobs, CPU)
    (node,) = again.tree.match_prefix(["a1"])
    assert (node.frequency, node.ms_per_token, node.level) == (2, 2.5, 1)
    assert read_all(again) == 1


@pytest.mark.parametrize("note", ["", "[]", '{"bits": 16}', '{"bits": 16, "size_bytes": 9, "other": 1}'])
def test_blobs_of_another_version_are_removed(note):
    blobs = MemoryBlobs()
    blobs.put("10a1", {"keys": torch.zeros(1)}, note)
    assert len(tiers(blobs=blobs).tree) == 0 and not blobs.held


def test_kv_of_another_precision_is_foreign():
    blobs = MemoryBlobs()
    made = tiers(host_bytes=0, blobs=blobs, bits=8)
    made.tree.insert(PLACE, kv("a1"), 1.0)
    made.drain()
    assert len(tiers(blobs=blobs, bits=8).tree) == 1
    assert len(tiers(blobs=blobs, bits=16).tree) == 0 and not blobs.held


def test_a_disk_that_turns_read_only_costs_the_disk_tier_and_no_question(tmp_path, monkeypatch):
    made = CacheHierarchy(CacheHierarchyConfig(2**20, 2**20), DiskBlobs(tmp_path), CPU)

    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        made.tree.insert(PLACE, kv("a1"), 1.0)
        assert made.tree.replicate("a1")
        made.drain()
        while made.tree.tiers[1].nodes:
            time.sleep(0.001)  # the writer's thread tells the tree right after
    assert "Read-only" in made.disk_error and read_all(made) == 1
    made.tree.insert(NodeKey("b2", "b2", None, 8), kv("b2"), 1.0)
    made.tree.replicate("b2")
    made.drain()
    assert made.disk_error == "" and made.tree.tiers[1].nodes == 1


@pytest.mark.parametrize("trouble", [RuntimeError("no memory"), sqlite3.OperationalError("disk I/O error")])
def test_the_writer_outlives_any_trouble(trouble):
    class Broken(MemoryBlobs):
        def put(self, key, tensors, note=""):
            raise trouble

    made = tiers(host_bytes=2**20, blobs=Broken())
    made.tree.insert(PLACE, kv("a1"), 1.0)
    made.tree.replicate("a1")
    made.drain()
    made.tree.delete("a1")
    made.tree.insert(PLACE, kv("a1"), 1.0)
    assert made.disk_error == str(trouble) and read_all(made) == 1
    made.close()


def test_a_disk_that_takes_no_change_still_lets_kv_go(tmp_path):
    blobs = DiskBlobs(tmp_path)
    made = CacheHierarchy(CacheHierarchyConfig(2**20, 2**20), blobs, CPU)
    made.tree.insert(PLACE, kv("a1"), 1.0)
    made.tree.replicate("a1")
    made.drain()
    blobs._index._connection.execute("PRAGMA query_only = ON")
    made.tree.delete("a1")
    assert len(made.tree) == 0 and made.tree.tiers[1].size_bytes == 0
    assert not list(tmp_path.glob("*.safetensors"))
    blobs.close()
    assert not DiskBlobs(tmp_path).notes()


def test_without_any_disk_everything_stays_in_memory():
    made = CacheHierarchy(CacheHierarchyConfig(2**20, 2**20), None, CPU)
    made.tree.insert(PLACE, kv("a1"), 1.0)
    assert made.tree.replicate("a1") and made.disk_error
    made.wait_for_room()
    made.drain()
    made.close()
    assert read_all(made) == 1


def test_a_budget_smaller_than_one_chunk_keeps_nothing_and_harms_nothing():
    made = tiers(host_bytes=10, disk_bytes=10)
    assert made.tree.insert(PLACE, kv("a1"), 1.0) is None
    assert len(made.tree) == 0


class SlowStore(DiskStore):
    """Writes when it is told to."""

    def __init__(self):
        super().__init__(MemoryBlobs())
        self.go, self.began = Event(), Event()

    def put(self, key, kv, record):
        self.began.set()
        assert self.go.wait(60)
        super().put(key, kv, record)


@pytest.fixture
def behind():
    store = SlowStore()
    made = WriteBehind(store, room_bytes=kv("a1").size_bytes)
    yield made, store
    store.go.set()
    made.close(5)


def test_what_is_not_written_yet_is_read_from_the_queue(behind):
    made, store = behind
    made.put("a1", kv("a1"), made_record())
    assert same(made.get("a1"), kv("a1"))
    with pytest.raises(KeyError):
        store.get("a1")


def test_a_disk_that_is_too_slow_is_not_waited_for(behind):
    made, _ = behind
    for key in ("a1", "b2"):
        made.put(key, kv(key), made_record())
    with pytest.raises(StoreFull, match="slower"):
        made.put("c3", kv("c3"), made_record())


def test_deleting_what_is_being_written_leaves_nothing():
    store = SlowStore()
    made = WriteBehind(store)
    made.put("a1", kv("a1"), made_record())
    store.began.wait(60)
    store.go.set()
    made.delete("a1")
    made.drain()
    with pytest.raises(KeyError):
        made.get("a1")
    made.close(5)


def test_what_could_not_be_written_is_told():
    told, blobs = [], MemoryBlobs()
    blobs.full = True
    made = WriteBehind(DiskStore(blobs), told.append)
    made.put("a1", kv("a1"), made_record())
    made.drain()
    made.close(5)
    assert told == ["a1"] and "space" in made.error


def made_record():
    held = tiers()
    held.tree.insert(PLACE, kv("a1"), 1.0)
    held.tree.replicate("a1")
    return held.tree.records()["a1"][1]


def test_kv_of_a_model_on_the_cpu_stays_out_of_the_devices_memory():
    made = CacheHierarchy(
        CacheHierarchyConfig(2**20, 2**20, device_bytes=2**20), MemoryBlobs(), torch.device("meta")
    )  # a device with no bytes
    made.keep_off_device("beside")
    made.tree.insert(NodeKey("a1", "a1", None, 8, "primary"), kv("a1"), 1.0)
    made.tree.insert(NodeKey("b2", "b2", None, 8, "beside"), kv("b2"), 1.0)
    with made.tree.pinned_while(["b2"]) as nodes:
        found, tier = made.tree.read(nodes[0])
    assert same(found, kv("b2")) and tier == "host"
    names = [tier.name for tier in made.tree.tiers]
    assert [names[made.tree.match_prefix([key])[0].level] for key in ("a1", "b2")] == ["device", "host"]
    made.close()


def test_what_is_read_for_a_device_is_the_copy_that_was_brought_there():
    made = CacheHierarchy(CacheHierarchyConfig(2**20, 2**20, device_bytes=1), MemoryBlobs(), torch.device("meta"))
    made.tree.insert(NodeKey("a1", "a1", None, 8, "primary"), kv("a1"), 1.0)  # into the host: the device is too small
    CacheAdmin(made.tree).set_budgets({"device": 2**20})
    with made.tree.pinned_while(["a1"]) as nodes:
        found = [made.tree.read(nodes[0]) for _ in range(2)]
    assert [(each.keys.device.type, tier) for each, tier in found] == [("meta", "host"), ("meta", "device")]
    made.close()


def test_what_waits_to_be_written_waits_in_the_hosts_memory():
    class OnDevice(ChunkKV):
        def to(self, device):
            moved.append(device)
            return super().to(device)

    moved, held = [], kv("a1")
    made = WriteBehind(DiskStore(MemoryBlobs()))
    made.put("a1", OnDevice(held.keys, held.values, held.start), Record("a1", None, 8))
    made.drain()
    assert moved == [CPU] and same(made.get("a1"), held)
    made.close(1.0)
