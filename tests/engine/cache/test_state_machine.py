"""The tree's invariants hold after any sequence of operations, crashes and restarts among them."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from engine.cache.admin import CacheAdmin
from engine.cache.eviction import POLICIES
from engine.errors import PassageInUse
from tests.support.trees import all_keys, all_nodes, check_invariants, insert_path, make_tree, path_keys

PATHS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=4)
SIZES = st.integers(1, 25)


class TreeMachine(RuleBasedStateMachine):
    """Operations on a tree of up to three tiers.

    readers  open `pinned_while` blocks and their nodes
    pinned   keys of the nodes that are pinned
    """

    @initialize(policy=st.sampled_from(sorted(POLICIES)), budgets=st.lists(st.integers(0, 80), min_size=1, max_size=3))
    def build(self, policy, budgets):
        self.policy, self.budgets, self.fills = policy, budgets, 0
        self.tree, self.readers, self.pinned = make_tree(*budgets, policy=policy), [], set()

    @rule(path=PATHS, size=SIZES, cost=st.floats(0, 10))
    def insert(self, path, size, cost):
        insert_path(self.tree, path, size, cost)

    @rule(path=PATHS)
    def record_hit(self, path):
        self.tree.record_hit(self.tree.match_prefix(path_keys(path)))

    @rule(path=PATHS)
    def begin_reading(self, path):
        block = self.tree.pinned_while(path_keys(path))
        nodes = block.__enter__()
        self.readers.append((block, nodes))

    @rule(path=PATHS)
    def read(self, path):
        with self.tree.pinned_while(path_keys(path)) as nodes:
            for node in nodes:
                kv, _ = self.tree.read(node)
                assert kv[0] == node.key

    @rule()
    def end_reading(self):
        if self.readers:
            self.readers.pop(0)[0].__exit__(None, None, None)

    @rule(path=PATHS)
    def replicate(self, path):
        self.tree.replicate(path_keys(path)[-1])

    @rule(path=PATHS, pinned=st.booleans())
    def pin(self, path, pinned):
        key = path_keys(path)[-1]
        if key in self.tree:
            CacheAdmin(self.tree).pin(key, pinned)
            (self.pinned.add if pinned else self.pinned.discard)(key)

    @rule(path=PATHS, level=st.one_of(st.none(), st.integers(0, 2)))
    def evict(self, path, level):
        (node,) = self.tree.match_prefix(path_keys(path))[len(path) - 1 :] or [None]
        if node is None or (level is not None and level >= len(self.budgets)):
            return
        before = {other.key: set(other.replicas) for other in all_nodes(self.tree)}
        subtree = [other for other in all_nodes(self.tree) if node in other.path()]
        levels = set(range(len(self.budgets)) if level is None else [level])
        is_protected = any(other.pinned or other.ref_count for other in subtree)
        try:
            CacheAdmin(self.tree).evict(node.key, None if level is None else self.tree.tiers[level].name)
            assert not is_protected and not any(levels & other.replicas.keys() for other in subtree)
        except PassageInUse:
            assert is_protected
            subtree = []
        others = before.keys() - {other.key for other in subtree}
        after = {other.key: set(other.replicas) for other in all_nodes(self.tree)}
        assert all(after[key] == before[key] for key in others)

    @rule(level=st.integers(0, 2), budget=st.integers(0, 80))
    def resize(self, level, budget):
        if level >= len(self.budgets):
            return
        nodes = [node for node in all_nodes(self.tree) if level in node.replicas and node.is_protected]
        protected_bytes = sum(node.replicas[level].size_bytes for node in nodes)
        try:
            CacheAdmin(self.tree).set_budgets({self.tree.tiers[level].name: budget})
            assert protected_bytes <= budget == self.tree.tiers[level].budget_bytes
            self.budgets[level] = budget
        except PassageInUse:
            assert protected_bytes > budget and self.tree.tiers[level].budget_bytes == self.budgets[level]

    @rule()
    def fill_the_fastest_tier(self):
        """Everything that is not protected is a candidate for eviction."""
        nodes = [node for node in all_nodes(self.tree) if 0 in node.replicas and node.is_protected]
        free_bytes = self.budgets[0] - sum(node.replicas[0].size_bytes for node in nodes)
        self.fills += 1
        for node in insert_path(self.tree, [f"x{self.fills}"], free_bytes) if free_bytes else []:
            assert node.level == 0 and self.tree.tiers[0].size_bytes == self.budgets[0]

    @rule(chunk=st.sampled_from("abcde"))
    def delete(self, chunk):
        self.tree.delete(chunk)
        assert not any(chunk in key for key in all_keys(self.tree))
        self.readers = [(block, [node for node in nodes if chunk not in node.key]) for block, nodes in self.readers]
        self.pinned = {key for key in self.pinned if chunk not in key}

    @rule(path=PATHS)
    def lose(self, path):
        for node in self.tree.match_prefix(path_keys(path))[-1:]:
            if not any(node in nodes for _, nodes in self.readers) and not node.pin_count:
                del self.tree.tiers[node.level].store.stored[node.key]
                self.tree.record_loss(node.key, node.level)

    @rule()
    def crash(self):
        stored = self.tree.tiers[-1].store.stored
        self.tree, self.readers, self.pinned = make_tree(*self.budgets, policy=self.policy), [], set()
        self.tree.tiers[-1].store.stored = stored
        for key in self.tree.restore([(key, kv[1], record) for key, (kv, record) in stored.items()]):
            stored.pop(key, None)

    @invariant()
    def the_tree_is_consistent(self):
        if hasattr(self, "tree"):
            check_invariants(self.tree)

    @invariant()
    def nodes_in_use_stay(self):
        for _, nodes in getattr(self, "readers", []):
            assert all(node.replicas and node.key in self.tree for node in nodes)

    @invariant()
    def pinned_nodes_and_their_ancestors_stay(self):
        nodes = {node.key: node for node in all_nodes(self.tree)} if hasattr(self, "tree") else {}
        for key in getattr(self, "pinned", []):
            assert nodes[key].pinned and all(node.replicas for node in nodes[key].path())

    @invariant()
    def the_snapshot_adds_up_to_the_tiers(self):
        if not hasattr(self, "tree"):
            return
        snapshot = CacheAdmin(self.tree).snapshot()
        for tier in snapshot.tiers:
            sizes = [copy.size_bytes for node in snapshot.nodes for copy in node.replicas if copy.tier == tier.name]
            assert (sum(sizes), len(sizes)) == (tier.size_bytes, tier.num_nodes)


TestTree = TreeMachine.TestCase
TestTree.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@pytest.mark.slow
def test_long_sequences():
    run_state_machine_as_test(TreeMachine, settings=settings(max_examples=300, stateful_step_count=50, deadline=None))
