"""A blob comes back bit for bit or not at all (invariant 10), whatever happens to the process or the disk."""

import errno
import os
import random
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import store.kv.blobs
from store.errors import KVIndexDamaged, StoreFull
from store.kv.blobs import DiskBlobs, remove_all

DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.int64, torch.uint8, torch.bool]
RELAXED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def open_blobs(tmp_path):
    opened = []

    def open_():
        while opened:
            opened.pop().close()
        opened.append(DiskBlobs(tmp_path / "blobs"))
        return opened[-1]

    yield open_
    while opened:
        opened.pop().close()


def execute(tmp_path, statement):
    """Change the index through a connection of its own."""
    with closing(sqlite3.connect(tmp_path / "blobs" / "index.sqlite3")) as index, index:
        index.execute(statement)


def tensors_of(seed, width=40):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(2, 3, width, generator=generator).to(torch.bfloat16) for name in ("keys", "values")}


def is_same(left, right):
    """Compare bit for bit, NaN included."""
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype
        and left[name].shape == right[name].shape
        and left[name]
        .contiguous()
        .flatten()
        .view(torch.uint8)
        .equal(right[name].contiguous().flatten().view(torch.uint8))
        for name in left
    )


def files(tmp_path, suffix=".safetensors"):
    return sorted(path for path in (tmp_path / "blobs").iterdir() if path.suffix == suffix)


@RELAXED
@given(st.binary(min_size=1, max_size=64), st.sampled_from(DTYPES), st.integers(0, 2**63))
def test_tensors_come_back_bit_for_bit(open_blobs, content, dtype, number):
    raw = torch.frombuffer(bytearray(content * dtype.itemsize), dtype=torch.uint8)
    raw = raw & 1 if dtype == torch.bool else raw
    tensors = {
        "keys": raw.view(dtype),
        "none": torch.empty(0, 3, dtype=dtype),
        "one": torch.tensor(1, dtype=dtype),
    }
    blobs = open_blobs()
    blobs.put(f"{number:016x}", tensors)
    assert is_same(blobs.get(f"{number:016x}"), tensors)
    assert is_same(open_blobs().get(f"{number:016x}"), tensors)


def test_views_and_shared_tensors_come_back_equal(open_blobs):
    both = torch.randn(2, 3, 4)
    tensors = {"keys": both[0], "values": both[1], "again": both[1], "turned": both.transpose(1, 2)}
    blobs = open_blobs()
    blobs.put("a1", tensors)
    assert is_same(blobs.get("a1"), tensors)


def test_changing_the_result_does_not_change_the_blob(open_blobs):
    blobs = open_blobs()
    blobs.put("a1", tensors_of(1))
    blobs.get("a1")["keys"].zero_()
    assert is_same(blobs.get("a1"), tensors_of(1))


def test_absent_key_is_a_key_error(open_blobs):
    blobs = open_blobs()
    with pytest.raises(KeyError, match="b2"):
        blobs.get("b2")
    blobs.delete("b2")


@pytest.mark.parametrize("key", ["", "../a", "a/b", "A1", "g1", "a1\n", "\u0661", "a" * 129])
def test_a_key_is_a_hex_digest(open_blobs, key):
    blobs = open_blobs()
    with pytest.raises(ValueError, match="hex digest"):
        blobs.put(key, tensors_of(1))
    with pytest.raises(KeyError):
        blobs.get(key)


def assert_dropped(blobs, tmp_path, key):
    with pytest.raises(KeyError):
        blobs.get(key)
    assert key not in blobs.notes()
    assert not [path for path in files(tmp_path) if path.name.startswith(f"{key}-")]


@RELAXED
@given(position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), reopened=st.booleans())
def test_one_flipped_bit_makes_a_miss(open_blobs, tmp_path, position, bit, reopened):
    blobs = open_blobs()
    blobs.put("a1", tensors_of(1))
    (path,) = files(tmp_path)
    content = bytearray(path.read_bytes())
    content[int(position * len(content))] ^= 1 << bit
    path.write_bytes(content)
    assert_dropped(open_blobs() if reopened else blobs, tmp_path, "a1")


@RELAXED
@given(ratio=st.floats(0, 1, exclude_max=True), reopened=st.booleans())
def test_a_truncated_file_makes_a_miss(open_blobs, tmp_path, ratio, reopened):
    blobs = open_blobs()
    blobs.put("a1", tensors_of(1))
    (path,) = files(tmp_path)
    os.truncate(path, int(ratio * path.stat().st_size))
    assert_dropped(open_blobs() if reopened else blobs, tmp_path, "a1")


@pytest.mark.parametrize("reopened", [False, True])
def test_swapped_files_are_misses(open_blobs, tmp_path, reopened):
    blobs = open_blobs()
    for number, key in enumerate(("a1", "b2")):
        blobs.put(key, tensors_of(number))
    first, second = files(tmp_path)
    first.rename(tmp_path / "aside")
    second.rename(first)
    (tmp_path / "aside").rename(second)
    blobs = open_blobs() if reopened else blobs
    for key in ("a1", "b2"):
        assert_dropped(blobs, tmp_path, key)


def test_putting_a_key_again_replaces_it(open_blobs, tmp_path):
    blobs = open_blobs()
    for seed in (1, 2, 2):
        blobs.put("a1", tensors_of(seed))
        assert is_same(blobs.get("a1"), tensors_of(seed))
    assert len(files(tmp_path)) == 1


def test_a_note_comes_back_with_its_blob_also_after_reopening(open_blobs):
    blobs = open_blobs()
    blobs.put("a1", tensors_of(1), "first")
    blobs.put("b2", tensors_of(2))
    assert blobs.notes() == {"a1": "first", "b2": ""}
    blobs.put("a1", tensors_of(1), "second")
    blobs.annotate({"b2": "third", "c3": "no blob"})
    assert blobs.notes() == {"a1": "second", "b2": "third"}
    assert open_blobs().notes() == {"a1": "second", "b2": "third"}


def test_a_folder_of_another_version_is_a_cold_start(open_blobs, tmp_path):
    open_blobs().put("a1", tensors_of(1))
    execute(tmp_path, "ALTER TABLE blobs DROP COLUMN note")
    blobs = open_blobs()
    assert blobs.notes() == {} and not files(tmp_path)
    blobs.put("a1", tensors_of(1))


@RELAXED
@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "get", "delete", "open"]), st.sampled_from("abcd"), st.integers(1, 200)),
        max_size=25,
    )
)
def test_any_history_agrees_with_a_dictionary(open_blobs, tmp_path, history):
    shutil.rmtree(tmp_path / "blobs", ignore_errors=True)
    blobs, model = open_blobs(), {}
    for action, key, width in history:
        if action == "open":
            blobs = open_blobs()
        elif action == "get" and key in model:
            assert is_same(blobs.get(key), model[key])
        elif action == "delete":
            blobs.delete(key)
            model.pop(key, None)
        elif action == "put":
            blobs.put(key, tensors_of(width, width))
            model[key] = tensors_of(width, width)
        assert set(blobs.notes()) == set(model) and len(files(tmp_path)) == len(model)
    assert all(is_same(blobs.get(key), tensors) for key, tensors in model.items())


def test_opening_makes_folder_and_index_agree(open_blobs, tmp_path):
    blobs = open_blobs()
    for number, key in enumerate(("a1", "b2")):
        blobs.put(key, tensors_of(number))
    files(tmp_path)[0].unlink()
    (tmp_path / "blobs" / "c3-0.safetensors").write_bytes(b"no row")
    (tmp_path / "blobs" / "d4.part").write_bytes(b"half")
    blobs = open_blobs()
    assert set(blobs.notes()) == {"b2"}
    assert [path.name[:2] for path in files(tmp_path)] == ["b2"] and not files(tmp_path, ".part")


def test_a_damaged_index_is_a_cold_start(open_blobs, tmp_path):
    blobs = open_blobs()
    blobs.put("a1", tensors_of(1))
    blobs.close()
    (tmp_path / "blobs" / "index.sqlite3").write_bytes(b"no database" * 500)
    blobs = open_blobs()
    assert not blobs.notes() and not files(tmp_path)
    blobs.put("a1", tensors_of(1))
    assert is_same(blobs.get("a1"), tensors_of(1))


@pytest.mark.parametrize("seed", range(6))
def test_an_index_with_a_damaged_page_or_bit_loses_blobs_but_returns_no_wrong_one(open_blobs, tmp_path, seed):
    rng, blobs = random.Random(seed), open_blobs()
    contents = {f"{key:02x}": tensors_of(key) for key in range(40)}
    for key, tensors in contents.items():
        blobs.put(key, tensors, "note " * 30)
    blobs.close()
    path = tmp_path / "blobs" / "index.sqlite3"
    data = bytearray(path.read_bytes())
    if seed % 2:
        start = rng.randrange(len(data) // 4096) * 4096
        data[start : start + 4096] = rng.randbytes(4096)
    else:
        for _ in range(20):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    blobs = open_blobs()
    for key in contents:
        with suppress(KeyError):
            assert is_same(blobs.get(key), contents[key])
    blobs.put("ff", contents["00"])
    assert is_same(blobs.get("ff"), contents["00"])


def test_an_index_damaged_while_it_is_open_gives_misses_and_a_clear_error(open_blobs, tmp_path):
    blobs = open_blobs()
    blobs.put("aa", tensors_of(1))
    execute(tmp_path, "DROP TABLE blobs")
    with pytest.raises(KeyError):
        blobs.get("aa")
    with pytest.raises(KVIndexDamaged, match="Restart KVScope"):
        blobs.put("bb", tensors_of(2))
    blobs.delete("aa")
    blobs = open_blobs()
    blobs.put("cc", tensors_of(3))
    assert is_same(blobs.get("cc"), tensors_of(3))


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_full_disk_leaves_earlier_blobs_untouched(open_blobs, tmp_path, monkeypatch, step, code):
    blobs = open_blobs()
    blobs.put("a1", tensors_of(1))

    def fail(*args):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        for key in ("a1", "b2"):
            with pytest.raises(StoreFull, match="Free some disk space"):
                blobs.put(key, tensors_of(2))
    assert is_same(blobs.get("a1"), tensors_of(1)) and set(blobs.notes()) == {"a1"}
    assert len(files(tmp_path)) == 1 and not files(tmp_path, ".part")


def test_a_full_index_leaves_earlier_blobs_untouched(open_blobs, tmp_path):
    blobs = open_blobs()
    blobs.put("a1", tensors_of(1))
    execute(
        tmp_path,
        "CREATE TRIGGER full BEFORE INSERT ON blobs BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END",
    )
    with pytest.raises(StoreFull):
        blobs.put("b2", tensors_of(2))
    with pytest.raises(StoreFull):
        blobs.put("a1", tensors_of(2))
    assert is_same(blobs.get("a1"), tensors_of(1))
    assert len(files(tmp_path)) == 1


def test_many_threads_see_whole_blobs_or_misses(open_blobs, tmp_path):
    blobs = open_blobs()
    allowed = {f"{key:x}": [tensors_of(key), tensors_of(key + 100)] for key in range(8)}
    barrier = threading.Barrier(6)

    def work(seed):
        barrier.wait()
        hits = 0
        for turn in range(120):
            key = f"{(seed * 7 + turn * 3) % 8:x}"
            if (seed + turn) % 3 == 0:
                blobs.put(key, allowed[key][turn % 2])
            elif turn % 29 == 0:
                blobs.delete(key)
            else:
                try:
                    tensors = blobs.get(key)
                except KeyError:
                    continue
                assert any(is_same(tensors, expected) for expected in allowed[key])
                hits += 1
        return hits

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(work, range(6))) > 0
    assert len(blobs.notes()) == len(files(tmp_path))


def test_readers_hash_concurrently(open_blobs, monkeypatch):
    """Two readers meet inside the hashing, which is impossible if one holds the lock."""
    blobs = open_blobs()
    blobs.put("a1", tensors_of(1))
    both_hashing, real = threading.Barrier(2, timeout=60), store.kv.blobs.hashlib.sha256

    def hash_together(data):
        both_hashing.wait()
        return real(data)

    monkeypatch.setattr(store.kv.blobs.hashlib, "sha256", hash_together)
    with ThreadPoolExecutor(2) as pool:
        assert all(is_same(tensors, tensors_of(1)) for tensors in pool.map(blobs.get, ["a1", "a1"]))


def test_removing_all_returns_the_bytes_deleted_and_left(open_blobs, tmp_path, monkeypatch):
    blobs = open_blobs()
    blobs.put("a1", tensors_of(1))
    (undeletable,), unlink = files(tmp_path), os.unlink
    blobs.close()

    def refuse_one(path, **options):
        if Path(path).name != undeletable.name:
            unlink(path, **options)

    monkeypatch.setattr(os, "unlink", refuse_one)
    deleted, left = remove_all(tmp_path / "blobs")
    assert left == undeletable.stat().st_size and deleted > 0  # the index
    monkeypatch.undo()
    assert remove_all(tmp_path / "blobs") == (left, 0) and not (tmp_path / "blobs").exists()
    assert remove_all(tmp_path / "blobs") == (0, 0)
