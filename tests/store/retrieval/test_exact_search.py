"""Law: what is found is what looking at every passage by hand finds, however alike the passages are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.retrieval.exact_search import ExactIndex
from store.retrieval.vectors import VectorIndex


def unit(vectors):
    vectors = np.asarray(vectors, np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


PASSAGES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 5)), max_size=20)
DOCUMENTS = st.sets(st.sampled_from("abcd"))


@given(PASSAGES, st.integers(0, 5), st.integers(1, 6), DOCUMENTS, DOCUMENTS)
def test_the_best_passage_of_each_chunk_decides(passages, asked, top, hidden, documents):
    grid = np.random.default_rng(0).integers(-2, 3, (6, 8)).astype(np.float32) / 8  # products are exact
    nearest, best = ExactIndex(), {}
    for document in "abc":
        own = [(f"{document}-{chunk}", row) for held, chunk, row in passages if held == document]
        nearest.add(document, [chunk for chunk, _ in own], grid[[row for _, row in own]])
        for chunk, row in own:
            if document not in hidden and (not documents or document in documents):
                best[chunk] = max(best.get(chunk, -1.0), float(grid[row] @ grid[asked]))
    found = nearest.search(grid[asked], top, hidden, documents)
    assert [chunk for chunk, _ in found] == sorted(best, key=lambda chunk: (-best[chunk], chunk))[:top]
    assert [cosine for _, cosine in found] == [best[chunk] for chunk, _ in found]


def test_a_document_added_in_parts_is_deleted_as_one():
    nearest, vectors = ExactIndex(), unit(np.eye(3))
    nearest.add("a", ["a-0"], vectors[:1])
    nearest.add("a", ["a-1"], vectors[1:2])
    nearest.add("b", ["b-0"], vectors[2:])
    assert [chunk for chunk, _ in nearest.search(vectors[1], 3)] == ["a-1", "a-0", "b-0"]
    nearest.delete("a")
    assert [chunk for chunk, _ in nearest.search(vectors[1], 3)] == ["b-0"]


def test_one_passage_among_hundreds_that_repeat_each_other_is_found_also_after_a_restart(tmp_path):
    alike, apart = unit(np.random.default_rng(1).normal(size=(2, 64)))
    repeated = np.concatenate([np.repeat(alike[None], 400, 0), apart[None], np.repeat(alike[None], 400, 0)])
    index = VectorIndex(tmp_path / "vectors")
    index.add("form", [f"form-{row:03d}" for row in range(801)], repeated)
    found = index.exact.search(apart, 1)
    assert found[0][0] == "form-400" and found[0][1] == pytest.approx(1, abs=1e-5)
    index.close()
    again = VectorIndex(tmp_path / "vectors")
    assert again.exact.search(apart, 1) == found and len(again) == 801
    again.delete("form")
    assert again.exact.search(apart, 1) == []
    again.close()
