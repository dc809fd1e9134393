"""`--check` finds each kind of damage and changes nothing; after `--repair` there is none."""

import random

import pytest

from backend.runtime.check import check_folder
from store.feedback import Rating
from tests.backend.conftest import filled


@pytest.fixture
def data(start, tmp_path):
    """The data folder of a closed backend with a document, its KV, a copy of the database, and settings."""
    backend = filled(start(), tmp_path)
    data = backend.loader.settings.data
    backend.feedback.put(Rating("1", 0.0, "Who?", "She.", True, "full", ()))
    backend.close()
    (data / "preferences.json").write_text('{"eviction_policy": "lru"}')
    (data / "collections.json").write_text('{"Boats": {"method": "full"}}')
    return data


def contents(data):
    """All files but SQLite's shared memory and empty logs, which reading creates."""
    paths = (path for path in data.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal")))
    return {path: path.read_bytes() for path in paths}


def flip_pages(path):
    data = bytearray(path.read_bytes())
    for start in range(100, len(data), 512):
        data[start] ^= 0xFF
    path.write_bytes(data)


DAMAGE = {
    "library/library.sqlite3": "library's database",
    "library/copies/*.sqlite3": "copy library-",
    "library/vectors/chroma.sqlite3": "search index",
    "kv/index.sqlite3": "chunk KV has a damaged index",
    "kv/*.safetensors": "chunk KV has 1 damaged file",
    "preferences.json": "preferences.json cannot be read",
    "collections.json": "collections.json cannot be read",
    "feedback.jsonl": "file of ratings has ratings that cannot be read",
}


def test_a_sound_folder_has_no_problems(data):
    before = contents(data)
    assert check_folder(data, repair=False) == []
    assert contents(data) == before


@pytest.mark.parametrize(("failed", "num_problems"), [(1, 0), (2, 1)])
def test_one_opening_that_was_killed_is_no_damage_as_at_a_start(data, failed, num_problems):
    (data / "library" / "vectors.opening").write_text(str(failed))
    assert len(check_folder(data, repair=True)) == num_problems
    assert (data / "library" / "vectors").exists() == (failed == 1)
    assert check_folder(data, repair=False) == []


@pytest.mark.parametrize("pattern", DAMAGE)
def test_damage_is_reported_then_repaired(data, pattern, start):
    path = sorted(data.glob(pattern))[0]
    flip_pages(path) if len(path.read_bytes()) > 100 else path.write_bytes(random.Random(0).randbytes(20))
    before = contents(data)
    (problem,) = check_folder(data, repair=False)
    assert DAMAGE[pattern] in problem
    assert contents(data) == before
    assert check_folder(data, repair=True)
    assert check_folder(data, repair=False) == []
    assert [document.name for document in start().documents()] == ["boats.txt"]
