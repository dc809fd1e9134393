"""What deleting chunks would free is known before, to the byte."""

from hypothesis import given
from hypothesis import strategies as st

from engine.cache.weigh import bytes_of
from tests.support.trees import grow, tree

PATHS = st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4, unique=True), max_size=8)


@given(PATHS, st.sets(st.sampled_from("abcdef")), st.integers(10, 200))
def test_deleting_frees_what_was_weighed(paths, doomed, budget):
    made = tree(budget, 400)
    for path in paths:
        grow(made, path)
    before = {tier.name: tier.size_bytes for tier in made.tiers}
    weighed = bytes_of(made, doomed)
    assert {tier.name: tier.size_bytes for tier in made.tiers} == before
    for chunk in doomed:
        made.delete(chunk)
    assert weighed == {tier.name: before[tier.name] - tier.size_bytes for tier in made.tiers}


def test_a_path_counts_for_every_chunk_on_it_and_once_for_them_together():
    made = tree(100)
    grow(made, "ab")
    grow(made, "b")
    assert [bytes_of(made, chunks)["tier 0"] for chunks in ("a", "b", "ab", "c")] == [20, 20, 30, 0]
