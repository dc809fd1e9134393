"""`chunk_bytes` predicts exactly what deleting chunks frees."""

from hypothesis import given
from hypothesis import strategies as st

from engine.cache.admin import chunk_bytes
from tests.support.trees import insert_path, make_tree

PATHS = st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4, unique=True), max_size=8)


@given(PATHS, st.sets(st.sampled_from("abcdef")), st.integers(10, 200))
def test_deleting_frees_the_predicted_bytes(paths, chunks, budget):
    tree = make_tree(budget, 400)
    for path in paths:
        insert_path(tree, path)
    before = {tier.name: tier.size_bytes for tier in tree.tiers}
    predicted = chunk_bytes(tree, chunks)
    assert {tier.name: tier.size_bytes for tier in tree.tiers} == before
    for chunk in chunks:
        tree.delete(chunk)
    assert predicted == {tier.name: before[tier.name] - tier.size_bytes for tier in tree.tiers}


def test_a_path_counts_once_for_each_of_its_chunks_and_once_for_all_together():
    tree = make_tree(100)
    insert_path(tree, "ab")
    insert_path(tree, "b")
    assert [chunk_bytes(tree, chunks)["tier 0"] for chunks in ("a", "b", "ab", "c")] == [20, 20, 30, 0]
