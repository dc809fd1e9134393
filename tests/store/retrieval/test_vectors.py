"""The search finds the true nearest chunks, however similar their segments are."""

from contextlib import closing
from unittest.mock import Mock

import numpy as np
import pytest
from chromadb.errors import InternalError
from hypothesis import given
from hypothesis import strategies as st

from store.errors import StoreFull
from store.retrieval.vectors import ExactIndex, VectorIndex


def unit(vectors):
    vectors = np.asarray(vectors, np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


SEGMENTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 5)), max_size=20)
DOCUMENTS = st.sets(st.sampled_from("abcd"))


@given(SEGMENTS, st.integers(0, 5), DOCUMENTS)
def test_a_chunk_has_the_cosine_of_its_best_segment(segments, query, owners):
    grid = np.random.default_rng(0).integers(-2, 3, (6, 8)).astype(np.float32) / 8  # products are exact
    index, best = ExactIndex(), {}
    for document in "abc":
        own = [(f"{document}-{chunk}", row) for owner, chunk, row in segments if owner == document]
        index.add(document, [chunk for chunk, _ in own], grid[[row for _, row in own]])
        for chunk, row in own:
            if document in owners:
                best[chunk] = max(best.get(chunk, -1.0), float(grid[row] @ grid[query]))
    assert index.cosines(grid[query], owners) == best


def test_a_document_added_in_parts_is_deleted_as_one():
    index, vectors = ExactIndex(), unit(np.eye(3))
    index.add("a", ["a-0"], vectors[:1])
    index.add("a", ["a-1"], vectors[1:2])
    index.add("b", ["b-0"], vectors[2:])
    assert index.cosines(vectors[1], "ab") == {"a-0": 0, "a-1": 1, "b-0": 0}
    index.delete("a")
    assert index.cosines(vectors[1], "ab") == {"b-0": 0}


def test_one_segment_among_hundreds_of_duplicates_is_found_also_after_a_restart(tmp_path):
    repeated, unique = unit(np.random.default_rng(1).normal(size=(2, 64)))
    vectors = np.concatenate([np.repeat(repeated[None], 400, 0), unique[None], np.repeat(repeated[None], 400, 0)])
    index = VectorIndex(tmp_path / "vectors")
    index.add("form", [f"form-{row:03d}" for row in range(801)], vectors)
    cosines = index.cosines(unique, ["form"])
    assert max(cosines, key=cosines.__getitem__) == "form-400" and cosines["form-400"] == pytest.approx(1, abs=1e-5)
    index.close()
    reopened = VectorIndex(tmp_path / "vectors")
    assert reopened.cosines(unique, ["form"]) == cosines and len(reopened) == 801
    reopened.delete("form")
    assert reopened.cosines(unique, ["form"]) == {}
    reopened.close()


def test_vectors_that_chroma_could_not_apply_are_deleted_by_their_ids(tmp_path):
    # On a full disk Chroma logs them and fails; it applies them later, so that deleting by a filter misses them.
    with closing(VectorIndex(tmp_path / "vectors")) as index:
        collection = index._collection = Mock(wraps=index._collection)
        collection.add.side_effect = InternalError("Error in compaction: database or disk is full")
        with pytest.raises(StoreFull):
            index.add("a", ["a-0", "a-0"], np.eye(2, dtype=np.float32))
        index.delete("a")
        index.delete("a")
    assert [each.kwargs for each in collection.delete.call_args_list if "ids" in each.kwargs] == [
        {"ids": ["a-0-0", "a-0-1"]}
    ]


def test_chroma_leaves_no_uninitialized_memory_in_its_files(tmp_path):
    index, vectors = VectorIndex(tmp_path / "vectors"), unit(np.eye(4))
    index.add("a", ["a-0"], vectors[:1])
    (rows,) = (tmp_path / "vectors").rglob("data_level0.bin")
    assert not rows.read_bytes().strip(b"\0")
    rows.write_bytes(b"secret".ljust(rows.stat().st_size, b"x"))  # as Chroma does if the memory had this text
    index.add("b", ["b-0"], vectors[1:2])
    assert not rows.read_bytes().strip(b"\0")
    index.close()
    rows.write_bytes(b"secret".ljust(rows.stat().st_size, b"x"))
    with closing(VectorIndex(tmp_path / "vectors")) as reopened:
        assert not rows.read_bytes().strip(b"\0")
        assert reopened.cosines(vectors[0], "ab") == {"a-0": 1, "b-0": 0}
