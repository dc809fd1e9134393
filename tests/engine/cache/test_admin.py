"""Administration of the knowledge tree: snapshots, pins, evictions and budgets."""

from threading import Thread

import pytest

from engine.cache.admin import CacheAdmin
from engine.errors import NotCached, PassageInUse
from tests.support.trees import (
    all_keys,
    all_nodes,
    check_invariants,
    insert_path,
    make_tree,
    path_keys,
    stored_records,
)


def test_a_snapshot_contains_the_statistics_of_every_node():
    tree = make_tree(100, 100, policy="pgdsf")
    a, _b = insert_path(tree, "ab", size=10, cost=2.0)
    tree.replicate("a")
    tree.record_hit([a])
    with tree.pinned_while(["a"]):
        snapshot = CacheAdmin(tree).snapshot()
    first, second = snapshot.nodes
    assert (first.key, first.parent, first.chunk, first.tokens) == ("a", None, "a", 10)
    assert (second.key, second.parent, second.chunk) == ("a/b", "a", "b")
    assert [(replica.tier, replica.size_bytes) for replica in first.replicas] == [("tier 0", 10), ("tier 1", 10)]
    assert [replica.priority for replica in first.replicas] == [4.0, 4.0]  # two uses of a token that took 2 ms
    assert (first.frequency, second.frequency, first.ms_per_token) == (2, 1, 2.0)
    assert (first.age, second.age) == (0, 1)
    assert (first.in_use, second.in_use, first.pinned, first.protected_by_pin) == (True, False, False, False)
    assert [(tier.size_bytes, tier.num_nodes) for tier in snapshot.tiers] == [(20, 2), (10, 1)]
    assert snapshot.policy == "PGDSF"


def test_a_restored_node_has_no_age_until_it_is_used():
    tree = make_tree(0, 100)
    insert_path(tree, "a")
    again = make_tree(0, 100, stores=[tier.store for tier in tree.tiers])
    again.restore(stored_records(tree))
    assert CacheAdmin(again).snapshot().nodes[0].age is None
    again.record_hit(again.match_prefix(["a"]))
    assert CacheAdmin(again).snapshot().nodes[0].age == 0


def test_a_snapshot_is_atomic():
    tree, inconsistent = make_tree(60, 90), []

    def take_snapshots():
        for _ in range(60):
            snapshot = CacheAdmin(tree).snapshot()
            for tier in snapshot.tiers:
                size = sum(c.size_bytes for node in snapshot.nodes for c in node.replicas if c.tier == tier.name)
                inconsistent.extend([tier] if size != tier.size_bytes else [])

    reader = Thread(target=take_snapshots)
    reader.start()
    for number in range(300):
        insert_path(tree, [str(number % 17), str(number % 5)])
    reader.join()
    assert inconsistent == []


def test_a_pinned_node_and_its_ancestors_outlive_more_expensive_ones():
    tree = make_tree(30)
    insert_path(tree, "ab", cost=0.1)
    CacheAdmin(tree).pin("a/b", True)
    for name in "cdefg":
        insert_path(tree, name, cost=9.0)
    assert all_keys(tree) == {"a", "a/b", "g"}
    check_invariants(tree)
    CacheAdmin(tree).pin("a/b", False)
    insert_path(tree, "hi", cost=9.0)
    assert "a/b" not in tree
    check_invariants(tree)


def test_a_tier_full_of_pinned_nodes_accepts_nothing_and_loses_nothing():
    tree = make_tree(30, 10)
    insert_path(tree, "ab")
    insert_path(tree, "c", size=5)
    CacheAdmin(tree).pin("a/b", True)
    (node,) = insert_path(tree, "d", size=10)
    assert node.level == 0 and "c" in tree
    (big,) = insert_path(tree, "e", size=10)
    CacheAdmin(tree).pin("e", True)
    assert insert_path(tree, "f", size=10)[0].level == 1
    assert insert_path(tree, "g", size=11) == []
    assert {"a", "a/b", "e"} <= all_keys(tree) and big.level == 0
    check_invariants(tree)


def test_deleting_a_chunk_removes_its_pinned_paths_and_their_pins():
    tree = make_tree(30)
    insert_path(tree, "ab")
    CacheAdmin(tree).pin("a/b", True)
    tree.delete("b")
    assert all_keys(tree) == {"a"}
    check_invariants(tree)
    for name in "cdef":
        insert_path(tree, name)
    assert "a" not in tree


def test_a_pin_protects_in_a_slower_tier_too():
    tree = make_tree(10, 10)
    insert_path(tree, "a")
    insert_path(tree, "b")
    CacheAdmin(tree).pin("a", True)
    for name in "cdef":
        insert_path(tree, name)
    assert "a" in tree and tree.match_prefix(["a"])[0].level == 1
    check_invariants(tree)


def test_evicting_removes_the_descendants_and_nothing_else():
    tree = make_tree(100, 100)
    insert_path(tree, "abc")
    insert_path(tree, "ad")
    result = CacheAdmin(tree).evict("a/b")
    assert all_keys(tree) == {"a", "a/d"}
    assert (result.num_replicas, result.size_bytes, result.num_nodes) == (2, 20, 2)
    assert tree.tiers[0].clock == 0.0  # only policies move the clock
    check_invariants(tree)


def test_evicting_from_one_tier_keeps_the_replicas_in_the_others():
    tree = make_tree(100, 100)
    insert_path(tree, "ab")
    for key in path_keys("ab"):
        tree.replicate(key)
    result = CacheAdmin(tree).evict("a", "tier 0")
    assert [set(node.replicas) for node in all_nodes(tree)] == [{1}, {1}]
    assert (result.num_replicas, result.size_bytes, result.num_nodes) == (2, 20, 0)
    check_invariants(tree)


def test_descendants_leave_only_the_tiers_that_are_faster_than_their_parents():
    tree = make_tree(20, 100, 100)
    insert_path(tree, "ab")
    tree.replicate("a")
    tree.replicate("a/b")
    insert_path(tree, "c")  # evicts a/b into the next tier
    with tree.pinned_while(["a", "a/b"]) as nodes:
        tree.read(nodes[1])
    assert [set(node.replicas) for node in all_nodes(tree)] == [{0, 2}, {0, 1, 2}, {1}]
    CacheAdmin(tree).evict("a", "tier 0")
    assert [set(node.replicas) for node in all_nodes(tree)] == [{2}, {2}, {1}]
    check_invariants(tree)


def test_evicting_a_node_that_is_in_use_or_pinned_is_rejected():
    tree = make_tree(100)
    insert_path(tree, "ab")
    admin = CacheAdmin(tree)
    with tree.pinned_while(["a", "a/b"]), pytest.raises(PassageInUse, match="reading"):
        admin.evict("a")
    admin.pin("a/b", True)
    with pytest.raises(PassageInUse, match="pinned"):
        admin.evict("a")
    assert all_keys(tree) == {"a", "a/b"}
    admin.pin("a/b", False)
    admin.evict("a")
    assert all_keys(tree) == set()


def test_a_smaller_budget_evicts_at_once_into_the_next_tier():
    tree = make_tree(100, 100)
    for name in "abcde":
        insert_path(tree, name)
    result = CacheAdmin(tree).set_budgets({"tier 0": 25})
    assert (result.num_replicas, result.size_bytes, result.num_nodes) == (3, 30, 0)
    assert (tree.tiers[0].size_bytes, tree.tiers[1].size_bytes) == (20, 30)
    check_invariants(tree)
    assert CacheAdmin(tree).set_budgets({"tier 1": 5}).num_nodes == 3
    check_invariants(tree)


def test_a_budget_below_the_pinned_bytes_is_rejected_and_nothing_changes():
    tree = make_tree(100)
    insert_path(tree, "ab")
    insert_path(tree, "c")
    CacheAdmin(tree).pin("a/b", True)
    with pytest.raises(PassageInUse, match="pinned"):
        CacheAdmin(tree).set_budgets({"tier 0": 19})
    assert tree.tiers[0].budget_bytes == 100 and all_keys(tree) == {"a", "a/b", "c"}
    CacheAdmin(tree).set_budgets({"tier 0": 20})
    assert all_keys(tree) == {"a", "a/b"}
    check_invariants(tree)


def test_a_zero_budget_empties_a_slower_tier():
    tree = make_tree(100, 100)
    insert_path(tree, "abc")
    for key in path_keys("abc"):
        tree.replicate(key)
    CacheAdmin(tree).set_budgets({"tier 1": 0})
    assert [set(node.replicas) for node in all_nodes(tree)] == [{0}, {0}, {0}]
    check_invariants(tree)


def test_a_larger_budget_makes_space():
    tree = make_tree(10)
    insert_path(tree, "a")
    assert CacheAdmin(tree).set_budgets({"tier 0": 20}).num_replicas == 0
    insert_path(tree, "b")
    assert all_keys(tree) == {"a", "b"}


def test_unknown_nodes_and_tiers_and_negative_budgets_are_rejected():
    admin = CacheAdmin(make_tree(10))
    for call in (lambda: admin.pin("x", True), lambda: admin.evict("x")):
        with pytest.raises(NotCached):
            call()
    with pytest.raises(ValueError, match="'attic'"):
        admin.set_budgets({"attic": 5})
    with pytest.raises(ValueError, match="got -1"):
        admin.set_budgets({"tier 0": -1})
