"""The knowledge tree: lookup, eviction order, promotion, deletion and restart."""

import itertools

import pytest

from engine.cache.tier import Tier
from tests.support.trees import (
    ByteStore,
    all_keys,
    check_invariants,
    insert_path,
    make_tree,
    path_keys,
    stored_records,
)


def test_match_prefix_returns_the_longest_cached_prefix():
    tree = make_tree(100)
    insert_path(tree, "ab")
    assert [node.key for node in tree.match_prefix(["a", "a/b", "a/b/c"])] == ["a", "a/b"]
    assert tree.match_prefix(["b"]) == []


def test_the_order_of_chunks_matters():
    tree = make_tree(100)
    insert_path(tree, "ab")
    assert tree.match_prefix(["b", "b/a"]) == []


def test_only_leaves_are_evicted():
    tree = make_tree(30)
    insert_path(tree, "abc")
    insert_path(tree, "d")
    assert all_keys(tree) == {"a", "a/b", "d"}


def test_a_parent_is_evictable_after_its_children():
    tree = make_tree(20)
    insert_path(tree, "ab")
    insert_path(tree, "c")
    insert_path(tree, "d")
    assert all_keys(tree) == {"c", "d"}


def test_an_expensive_node_is_kept_until_the_clock_reaches_its_priority():
    tree = make_tree(20, policy="pgdsf")
    insert_path(tree, "d", cost=5.0)
    evicted = []
    for number in range(20):
        insert_path(tree, [f"cheap {number}"], cost=1.0)
        evicted.append("d" not in tree)
        if evicted[-1]:
            break
    # each new node has priority clock + 1 and evicts the one before it, so the clock rises by 1 until it reaches 5
    assert evicted == [False] * 5 + [True]
    assert tree.tiers[0].clock == 5.0


def test_each_tier_has_its_own_clock():
    tree = make_tree(10, 20, policy="pgdsf")
    for number in range(4):
        insert_path(tree, [str(number)], cost=1.0)
    # the first tier evicted at priorities 1, 2 and 3; the second accepted three nodes and evicted one
    assert (tree.tiers[0].clock, tree.tiers[1].clock) == (3.0, 1.0)


@pytest.mark.parametrize(("policy", "evicted"), [("lru", "b"), ("lfu", "c"), ("gdsf", "c"), ("pgdsf", "a")])
def test_each_policy_evicts_the_node_with_its_lowest_priority(policy, evicted):
    tree = make_tree(30, policy=policy)
    nodes = {name: insert_path(tree, name, cost=cost)[0] for name, cost in (("a", 0.1), ("b", 9.0), ("c", 5.0))}
    for name in "bbbaac":
        tree.record_hit([nodes[name]] if name != "c" else [])
    tree.record_hit([nodes["a"]])
    tree.record_hit([nodes["c"]])
    tree.record_hit([nodes["a"]])
    if policy == "lru":
        tree.record_hit([nodes["c"]])
    insert_path(tree, "d")
    assert {"a", "b", "c"} - all_keys(tree) == {evicted}


def test_evicted_kv_is_copied_to_the_next_tier_only_once():
    fast, slow = ByteStore(), ByteStore()
    written, put = [], slow.put
    slow.put = lambda key, kv, record: written.append(key) or put(key, kv, record)
    tree = make_tree(10, 100, stores=[fast, slow])
    insert_path(tree, "a")
    for name in "bab":
        with tree.pinned_while([name]) as nodes:
            assert tree.read(nodes[0]) is not None if nodes else insert_path(tree, name)
        check_invariants(tree)
    assert written == ["a", "b"]


def test_evicted_kv_is_copied_to_the_next_tier_even_if_a_slower_one_has_it():
    tree = make_tree(10, 100, 100)
    insert_path(tree, "a")
    tree.replicate("a")
    insert_path(tree, "b")
    (a,) = tree.match_prefix(["a"])
    assert set(a.replicas) == {1, 2}
    check_invariants(tree)


def test_nothing_is_evicted_for_kv_that_the_store_does_not_accept():
    tree = make_tree(10, 10)
    insert_path(tree, "a")
    insert_path(tree, "b")
    tree.tiers[1].store.can_accept = lambda: False
    insert_path(tree, "c")
    assert all_keys(tree) == {"a", "c"}
    check_invariants(tree)


def test_clearing_a_tier_keeps_the_others():
    tree = make_tree(100, 100)
    insert_path(tree, "ab")
    for key in path_keys("ab"):
        tree.replicate(key)
    tree.clear(0)
    assert [node.level for node in tree.match_prefix(["a", "a/b"])] == [1, 1]
    check_invariants(tree)


def test_a_node_in_use_and_its_ancestors_are_not_evicted():
    tree = make_tree(30)
    insert_path(tree, "abc")
    with tree.pinned_while(["a", "a/b"]) as nodes:
        for name in "defgh":
            insert_path(tree, name)
        assert [node.key for node in nodes] == ["a", "a/b"] and all(node.replicas for node in nodes)
        check_invariants(tree)
    insert_path(tree, "xy")
    insert_path(tree, "z")
    assert "a/b" not in tree


def test_nothing_is_evicted_for_kv_larger_than_the_budget():
    tree = make_tree(30)
    insert_path(tree, "a")
    assert insert_path(tree, "b", size=31) == []
    assert "a" in tree


def test_a_tier_too_small_for_a_node_is_skipped():
    tree = make_tree(5, 30)
    (node,) = insert_path(tree, "a")
    assert node.level == 1
    check_invariants(tree)


def test_reading_promotes_a_path_and_returns_the_tier_it_came_from():
    tree = make_tree(20, 100)
    insert_path(tree, "ab")
    insert_path(tree, "c")
    insert_path(tree, "d")
    with tree.pinned_while(["a", "a/b"]) as nodes:
        assert [tree.read(node)[1] for node in nodes] == ["tier 1", "tier 1"]
        assert [node.level for node in nodes] == [0, 0]
        check_invariants(tree)


def test_kv_that_a_store_lost_is_a_miss_and_its_descendants_are_removed():
    tree = make_tree(0, 100)
    insert_path(tree, "abc")
    del tree.tiers[1].store.stored["a/b"]
    with tree.pinned_while(["a", "a/b", "a/b/c"]) as nodes:
        assert tree.read(nodes[0]) is not None
        assert tree.read(nodes[1]) is None and tree.read(nodes[2]) is None
    assert all_keys(tree) == {"a"}
    check_invariants(tree)


def test_a_tier_on_a_full_disk_is_skipped():
    tree = make_tree(10, 100)
    tree.tiers[1].store.full = True
    insert_path(tree, "a")
    insert_path(tree, "b")
    assert all_keys(tree) == {"b"}
    check_invariants(tree)


def test_a_deleted_chunk_is_removed_from_every_path_and_tier_in_use_or_not():
    tree = make_tree(30, 100)
    for path in ("abc", "cb", "bd", "ad"):
        insert_path(tree, path)
    with tree.pinned_while(["a", "a/b"]):
        tree.delete("b")
        assert all_keys(tree) == {"a", "c", "a/d"}
        check_invariants(tree)
    check_invariants(tree)


def test_a_chunk_deleted_while_its_kv_is_computed_is_deleted_again_at_the_end():
    tree = make_tree(100)
    with tree.track_deletions(), tree.track_deletions():
        tree.delete("a")
        insert_path(tree, "ab")
    assert all_keys(tree) == set()
    with tree.track_deletions():
        insert_path(tree, "a")
    assert "a" in tree


def test_deletions_before_the_block_are_not_tracked():
    tree = make_tree(100)
    with tree.track_deletions():
        tree.delete("a")
        later = tree.track_deletions()
        deleted = later.__enter__()
    assert not deleted
    insert_path(tree, "a")
    later.__exit__(None, None, None)
    assert "a" in tree


def test_replicate_copies_a_node_to_the_slowest_tier():
    tree = make_tree(100, 100)
    (node,) = insert_path(tree, "a")
    assert tree.replicate("a") and set(node.replicas) == {0, 1}
    tree.clear(0)
    assert node.level == 1
    check_invariants(tree)


def test_restore_reads_the_tree_and_its_statistics_from_the_slowest_tier():
    slow = ByteStore()
    tree = make_tree(40, 100, stores=[ByteStore(), slow])
    insert_path(tree, "ab", cost=3.0)
    for key in path_keys("ab"):
        tree.replicate(key)
    again = make_tree(40, 100, stores=[ByteStore(), slow])
    assert again.restore(stored_records(tree)[::-1]) == []
    (a, b) = again.match_prefix(["a", "a/b"])
    assert (a.frequency, a.ms_per_token, b.parent) == (1, 3.0, a)
    check_invariants(again)


def test_restore_rejects_nodes_without_an_ancestor():
    tree = make_tree(0, 100)
    insert_path(tree, "abc")
    stored = [entry for entry in stored_records(tree) if entry[0] != "a/b"]
    assert make_tree(0, 100, stores=[ByteStore(), tree.tiers[1].store]).restore(stored) == ["a/b/c"]


def test_restore_respects_a_smaller_budget():
    tree = make_tree(0, 100)
    for name in "abcdef":
        insert_path(tree, name)
    again = make_tree(0, 25, stores=[ByteStore(), tree.tiers[1].store])
    assert len(again.restore(stored_records(tree))) == 4
    check_invariants(again)


def test_kv_that_is_slow_to_read_is_skipped_until_the_estimate_has_decayed(monkeypatch):
    times = itertools.count()
    monkeypatch.setattr("engine.cache.knowledge_tree.perf_counter", lambda: next(times) / 1e3)
    tree = make_tree(100)
    insert_path(tree, "a")
    with tree.pinned_while(["a"]) as (node,):
        assert tree.read(node, max_ms=0.0) is not None  # nothing was measured yet
        assert tree.tiers[0].ms_per_byte == pytest.approx(1.0 / 10)
        assert [tree.read(node, max_ms=0.7) is None for _ in range(3)] == [True, True, False]


def test_a_negative_budget_is_rejected():
    with pytest.raises(ValueError, match="got -1"):
        Tier("host", -1, ByteStore())
