"""What a person does to the knowledge tree: looking changes nothing, pins hold, evictions stay inside the laws."""

from threading import Thread

import pytest

from engine.cache.admin import CacheAdmin
from engine.cache.eviction import PGDSF
from engine.errors import NotKept, StaysInCache
from tests.support.trees import all_nodes, check, grow, places, tree


def keys(made):
    return {node.key for node in all_nodes(made)}


def test_a_snapshot_tells_of_every_node_what_a_policy_knows_of_it():
    made = tree(100, 100, policy=PGDSF())
    a, _b = grow(made, "ab", size=10, cost=2.0)
    made.replicate("a")
    made.record_hit([a])
    with made.pinned_while(["a"]):
        shown = CacheAdmin(made).snapshot()
    first, second = shown.nodes
    assert (first.key, first.parent, first.chunk, first.tokens) == ("a", None, "a", 10)
    assert (second.key, second.parent, second.chunk) == ("a/b", "a", "b")
    assert [(copy.tier, copy.size_bytes) for copy in first.copies] == [("tier 0", 10), ("tier 1", 10)]
    assert [copy.priority for copy in first.copies] == [4.0, 4.0]  # two uses of a token that took 2 ms
    assert (first.frequency, second.frequency, first.ms_per_token) == (2, 1, 2.0)
    assert (shown.uses, first.age, second.age) == (3, 0, 1)
    assert (first.held, second.held, first.pinned, first.kept) == (True, False, False, False)
    assert [(tier.size_bytes, tier.nodes) for tier in shown.tiers] == [(20, 2), (10, 1)]
    assert shown.policy == "PGDSF"


def test_what_an_earlier_process_left_has_no_age_until_it_is_used():
    made = tree(0, 100)
    grow(made, "a")
    again = tree(0, 100, stores=[tier.store for tier in made.tiers])
    again.restore([(key, *one) for key, one in made.records().items()])
    assert CacheAdmin(again).snapshot().nodes[0].age is None
    again.record_hit(again.match_prefix(["a"]))
    assert CacheAdmin(again).snapshot().nodes[0].age == 0


def test_a_snapshot_is_of_one_moment_whatever_others_do():
    made, odd = tree(60, 90), []

    def look():
        for _ in range(60):
            shown = CacheAdmin(made).snapshot()
            for tier in shown.tiers:
                size = sum(c.size_bytes for node in shown.nodes for c in node.copies if c.tier == tier.name)
                odd.extend([tier] if size != tier.size_bytes else [])

    looking = Thread(target=look)
    looking.start()
    for number in range(300):
        grow(made, [str(number % 17), str(number % 5)])
    looking.join()
    assert odd == []


def test_a_pinned_node_and_all_before_it_outlive_everything_dearer():
    made = tree(30)
    grow(made, "ab", cost=0.1)
    CacheAdmin(made).pin("a/b", True)
    for name in "cdefg":
        grow(made, name, cost=9.0)
    assert keys(made) == {"a", "a/b", "g"}
    check(made)
    CacheAdmin(made).pin("a/b", False)
    grow(made, "hi", cost=9.0)
    assert "a/b" not in made
    check(made)


def test_a_tier_full_of_pins_takes_nothing_and_loses_nothing():
    made = tree(30, 10)
    grow(made, "ab")
    grow(made, "c", size=5)
    CacheAdmin(made).pin("a/b", True)
    (node,) = grow(made, "d", size=10)
    assert node.level == 0 and "c" in made
    (big,) = grow(made, "e", size=10)
    CacheAdmin(made).pin("e", True)
    assert grow(made, "f", size=10)[0].level == 1
    assert grow(made, "g", size=11) == []
    assert {"a", "a/b", "e"} <= keys(made) and big.level == 0
    check(made)


def test_deleting_a_chunk_takes_its_pinned_paths_along_and_the_pins_with_them():
    made = tree(30)
    grow(made, "ab")
    CacheAdmin(made).pin("a/b", True)
    made.delete("b")
    assert keys(made) == {"a"}
    check(made)
    for name in "cdef":
        grow(made, name)
    assert "a" not in made


def test_a_pin_in_a_slower_tier_holds_there_too():
    made = tree(10, 10)
    grow(made, "a")
    grow(made, "b")
    CacheAdmin(made).pin("a", True)
    for name in "cdef":
        grow(made, name)
    assert "a" in made and made.match_prefix(["a"])[0].level == 1
    check(made)


def test_evicting_takes_what_stands_behind_along_and_nothing_else():
    made = tree(100, 100)
    grow(made, "abc")
    grow(made, "ad")
    gone = CacheAdmin(made).evict("a/b")
    assert keys(made) == {"a", "a/d"}
    assert (gone.copies, gone.size_bytes, gone.gone) == (2, 20, 2)
    assert made.tiers[0].clock == 0.0  # a person's wish says nothing of worth
    check(made)


def test_evicting_from_one_tier_leaves_the_copies_of_the_others():
    made = tree(100, 100)
    grow(made, "ab")
    for place in places("ab"):
        made.replicate(place.key)
    gone = CacheAdmin(made).evict("a", "tier 0")
    assert [set(node.copies) for node in all_nodes(made)] == [{1}, {1}]
    assert (gone.copies, gone.size_bytes, gone.gone) == (2, 20, 0)
    check(made)


def test_what_would_lie_faster_than_its_parent_leaves_that_tier_only():
    made = tree(100, 100, 100)
    grow(made, "ab")
    made.replicate("a")
    made.replicate("a/b")
    with made.pinned_while(["a", "a/b"]) as nodes, made.locked() as copies:
        assert copies.put(nodes[1], 1, made.tiers[0].store.get("a/b"))
    assert [set(node.copies) for node in all_nodes(made)] == [{0, 2}, {0, 1, 2}]
    CacheAdmin(made).evict("a", "tier 0")
    assert [set(node.copies) for node in all_nodes(made)] == [{2}, {2}]
    check(made)


def test_what_is_read_or_pinned_is_not_evicted_and_says_so():
    made = tree(100)
    grow(made, "ab")
    control = CacheAdmin(made)
    with made.pinned_while(["a", "a/b"]), pytest.raises(StaysInCache, match="reading"):
        control.evict("a")
    control.pin("a/b", True)
    with pytest.raises(StaysInCache, match="pinned"):
        control.evict("a")
    assert keys(made) == {"a", "a/b"}
    control.pin("a/b", False)
    control.evict("a")
    assert keys(made) == set()


def test_a_smaller_budget_is_kept_at_once_and_what_leaves_goes_to_the_next_tier():
    made = tree(100, 100)
    for name in "abcde":
        grow(made, name)
    gone = CacheAdmin(made).set_budgets({"tier 0": 25})
    assert (gone.copies, gone.size_bytes, gone.gone) == (3, 30, 0)
    assert (made.tiers[0].size_bytes, made.tiers[1].size_bytes) == (20, 30)
    check(made)
    assert CacheAdmin(made).set_budgets({"tier 1": 5}).gone == 3
    check(made)


def test_a_budget_below_what_is_pinned_is_refused_and_nothing_changes():
    made = tree(100)
    grow(made, "ab")
    grow(made, "c")
    CacheAdmin(made).pin("a/b", True)
    with pytest.raises(StaysInCache, match="pinned"):
        CacheAdmin(made).set_budgets({"tier 0": 19})
    assert made.tiers[0].budget_bytes == 100 and keys(made) == {"a", "a/b", "c"}
    CacheAdmin(made).set_budgets({"tier 0": 20})
    assert keys(made) == {"a", "a/b"}
    check(made)


def test_a_budget_of_nothing_empties_a_tier_under_paths_that_lie_faster():
    made = tree(100, 100)
    grow(made, "abc")
    for place in places("abc"):
        made.replicate(place.key)
    CacheAdmin(made).set_budgets({"tier 1": 0})
    assert [set(node.copies) for node in all_nodes(made)] == [{0}, {0}, {0}]
    check(made)


def test_a_larger_budget_makes_room():
    made = tree(10)
    grow(made, "a")
    assert CacheAdmin(made).set_budgets({"tier 0": 20}).copies == 0
    grow(made, "b")
    assert keys(made) == {"a", "b"}


def test_unknown_nodes_and_tiers_and_negative_budgets_are_refused():
    control = CacheAdmin(tree(10))
    for step in (lambda: control.pin("x", True), lambda: control.evict("x")):
        with pytest.raises(NotKept):
            step()
    with pytest.raises(ValueError, match="'attic'"):
        control.set_budgets({"attic": 5})
    with pytest.raises(ValueError, match="got -1"):
        control.set_budgets({"tier 0": -1})
