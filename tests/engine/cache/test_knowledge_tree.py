"""The knowledge tree: what may be evicted, in which order, and what must stay (laws 7, 8 and 12)."""

import pytest

from engine.cache.eviction import GDSF, LFU, LRU, PGDSF
from engine.cache.knowledge_tree import KnowledgeTree
from engine.cache.tier import Tier
from tests.support.trees import ByteStore, all_nodes, check, grow, places, tree


def test_a_path_is_found_as_far_as_it_is_there():
    made = tree(100)
    grow(made, "ab")
    assert [node.key for node in made.match_prefix(["a", "a/b", "a/b/c"])] == ["a", "a/b"]
    assert made.match_prefix(["b"]) == []


def test_the_order_of_chunks_makes_the_path():
    made = tree(100)
    grow(made, "ab")
    assert made.match_prefix(["b", "b/a"]) == []


def test_only_leaves_are_evicted_so_a_path_dies_from_its_end():
    made = tree(30)
    grow(made, "abc")
    grow(made, "d")
    assert {node.key for node in all_nodes(made)} == {"a", "a/b", "d"}


def test_a_parent_may_go_once_its_children_have_gone():
    made = tree(20)
    grow(made, "ab")
    grow(made, "c")
    grow(made, "d")
    assert {node.key for node in all_nodes(made)} == {"c", "d"}


def test_the_dearer_node_outlives_the_cheaper_one_until_the_clock_passes_it():
    made = tree(20, policy=PGDSF())
    grow(made, "d", cost=5.0)
    gone = []
    for number in range(20):
        grow(made, [f"cheap {number}"], cost=1.0)
        gone.append("d" not in made)
        if gone[-1]:
            break
    # each newcomer is worth clock + 1 and pushes out the one before, so the clock rises by 1 until it has reached 5
    assert gone == [False] * 5 + [True]
    assert made.tiers[0].clock == 5.0


def test_each_tier_has_a_clock_of_its_own():
    made = tree(10, 20, policy=PGDSF())
    for number in range(4):
        grow(made, [str(number)], cost=1.0)
    # the first tier let go at 1, 2 and 3; the second took three and let go of one, for the first time
    assert (made.tiers[0].clock, made.tiers[1].clock) == (3.0, 1.0)


@pytest.mark.parametrize(("policy", "gone"), [(LRU, "b"), (LFU, "c"), (GDSF, "c"), (PGDSF, "a")])
def test_each_policy_lets_go_of_what_it_counts_as_worth_least(policy, gone):
    made = tree(30, policy=policy())
    nodes = {name: grow(made, name, cost=cost)[0] for name, cost in (("a", 0.1), ("b", 9.0), ("c", 5.0))}
    for name in "bbbaac":
        made.record_hit([nodes[name]] if name != "c" else [])
    made.record_hit([nodes["a"]])
    made.record_hit([nodes["c"]])
    made.record_hit([nodes["a"]])
    if policy is LRU:
        made.record_hit([nodes["c"]])
    grow(made, "d")
    assert {"a", "b", "c"} - {node.key for node in all_nodes(made)} == {gone}


def test_what_leaves_a_tier_goes_to_the_next_and_what_is_there_already_is_only_freed():
    fast, slow = ByteStore(), ByteStore()
    written, put = [], slow.put
    slow.put = lambda key, kv, record: written.append(key) or put(key, kv, record)
    made = tree(10, 100, stores=[fast, slow])
    grow(made, "a")
    for name in "bab":
        with made.pinned_while([name]) as nodes:
            assert made.read(nodes[0]) is not None if nodes else grow(made, name)
        check(made)
    assert written == ["a", "b"]


def test_each_tier_is_filled_from_the_one_above_also_where_a_slower_one_has_a_copy():
    made = tree(10, 100, 100)
    grow(made, "a")
    made.replicate("a")
    grow(made, "b")
    (a,) = made.match_prefix(["a"])
    assert set(a.copies) == {1, 2}
    check(made)


def test_nothing_is_evicted_for_what_a_store_will_not_take():
    made = tree(10, 10)
    grow(made, "a")
    grow(made, "b")
    made.tiers[1].store.takes_more = lambda: False
    grow(made, "c")
    assert {node.key for node in all_nodes(made)} == {"a", "c"}
    check(made)


def test_clearing_a_tier_leaves_the_others():
    made = tree(100, 100)
    grow(made, "ab")
    for place in places("ab"):
        made.replicate(place.key)
    made.clear(0)
    assert [node.level for node in made.match_prefix(["a", "a/b"])] == [1, 1]
    check(made)


def test_a_held_node_and_all_before_it_stay():
    made = tree(30)
    grow(made, "abc")
    with made.pinned_while(["a", "a/b"]) as nodes:
        for name in "defgh":
            grow(made, name)
        assert [node.key for node in nodes] == ["a", "a/b"] and all(node.copies for node in nodes)
        check(made)
    grow(made, "xy")
    grow(made, "z")
    assert "a/b" not in made


def test_nothing_is_evicted_for_what_is_larger_than_the_budget():
    made = tree(30)
    grow(made, "a")
    assert grow(made, "b", size=31) == []
    assert "a" in made


def test_a_tier_too_small_for_a_node_is_passed_over():
    made = tree(5, 30)
    (node,) = grow(made, "a")
    assert node.level == 1
    check(made)


def test_reading_brings_a_path_up_and_names_the_tier_it_came_from():
    made = tree(20, 100)
    grow(made, "ab")
    grow(made, "c")
    grow(made, "d")
    with made.pinned_while(["a", "a/b"]) as nodes:
        assert [made.read(node)[1] for node in nodes] == ["tier 1", "tier 1"]
        assert [node.level for node in nodes] == [0, 0]
        check(made)


def test_kv_that_a_store_lost_is_a_miss_and_takes_what_stands_behind_it_along():
    made = tree(0, 100)
    grow(made, "abc")
    del made.tiers[1].store.held["a/b"]
    with made.pinned_while(["a", "a/b", "a/b/c"]) as nodes:
        assert made.read(nodes[0]) is not None
        assert made.read(nodes[1]) is None and made.read(nodes[2]) is None
    assert {node.key for node in all_nodes(made)} == {"a"}
    check(made)


def test_a_tier_that_is_full_on_disk_is_passed_over():
    made = tree(10, 100)
    made.tiers[1].store.full = True
    grow(made, "a")
    grow(made, "b")
    assert {node.key for node in all_nodes(made)} == {"b"}
    check(made)


def test_a_deleted_chunk_is_gone_from_every_path_and_tier_held_or_not():
    made = tree(30, 100)
    for path in ("abc", "cb", "bd", "ad"):
        grow(made, path)
    with made.pinned_while(["a", "a/b"]):
        made.delete("b")
        assert {node.key for node in all_nodes(made)} == {"a", "c", "a/d"}
        check(made)
    check(made)


def test_a_chunk_that_is_deleted_while_its_kv_is_computed_is_gone_at_the_end():
    made = tree(100)
    with made.track_deletions(), made.track_deletions():
        made.delete("a")
        grow(made, "ab")
    assert {node.key for node in all_nodes(made)} == set()
    with made.track_deletions():
        grow(made, "a")
    assert "a" in made


def test_what_was_deleted_before_a_visit_is_none_of_its_business():
    made = tree(100)
    with made.track_deletions():
        made.delete("a")
        later = made.track_deletions()
        deleted = later.__enter__()
    assert not deleted
    grow(made, "a")
    later.__exit__(None, None, None)
    assert "a" in made


def test_a_node_is_copied_to_the_slowest_tier_and_stays_in_the_fastest():
    made = tree(100, 100)
    (node,) = grow(made, "a")
    assert made.replicate("a") and set(node.copies) == {0, 1}
    made.clear(0)
    assert node.level == 1
    check(made)


def test_the_tree_comes_back_from_the_slowest_tier_with_what_it_had_learned():
    slow = ByteStore()
    made = tree(40, 100, stores=[ByteStore(), slow])
    grow(made, "ab", cost=3.0)
    for place in places("ab"):
        made.replicate(place.key)
    again = tree(40, 100, stores=[ByteStore(), slow])
    found = [(key, *one) for key, one in made.records().items()]
    assert again.restore(found[::-1]) == []
    (a, b) = again.match_prefix(["a", "a/b"])
    assert (a.frequency, a.ms_per_token, b.parent) == (1, 3.0, a)
    check(again)


def test_kv_whose_path_is_broken_has_no_place_after_a_restart():
    made = tree(0, 100)
    grow(made, "abc")
    found = [(key, *one) for key, one in made.records().items() if key != "a/b"]
    assert tree(0, 100, stores=[ByteStore(), made.tiers[1].store]).restore(found) == ["a/b/c"]


def test_a_smaller_budget_after_a_restart_is_kept():
    made = tree(0, 100)
    for name in "abcdef":
        grow(made, name)
    found = [(key, *one) for key, one in made.records().items()]
    again = tree(0, 25, stores=[ByteStore(), made.tiers[1].store])
    assert len(again.restore(found)) == 4
    check(again)


def test_reading_teaches_how_long_reading_takes():
    times = iter(range(100))
    made = KnowledgeTree([Tier("host", 100, ByteStore())], clock=lambda: next(times) / 1e3)
    grow(made, "a")
    with made.pinned_while(["a"]) as nodes:
        assert made.read_ms(nodes[0]) == 0.0
        made.read(nodes[0])
        assert made.read_ms(nodes[0]) == pytest.approx(1.0)


def test_a_negative_budget_is_refused():
    with pytest.raises(ValueError, match="got -1"):
        Tier("host", -1, ByteStore())
