"""Any sequence of insert, use, read, hold, release, copy, delete, lose, crash and reopen keeps the tree's laws."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.tree.policy import POLICIES
from tests.engine.trees import all_nodes, check, grow, places, tree

PATHS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=4)
SIZES = st.integers(1, 25)


class TreeMachine(RuleBasedStateMachine):
    @initialize(policy=st.sampled_from(sorted(POLICIES)), budgets=st.lists(st.integers(0, 80), min_size=1, max_size=3))
    def build(self, policy, budgets):
        self.policy, self.budgets = POLICIES[policy], budgets
        self.tree, self.holds = tree(*budgets, policy=self.policy()), []

    @rule(path=PATHS, size=SIZES, cost=st.floats(0, 10))
    def insert(self, path, size, cost):
        grow(self.tree, path, size, cost)

    @rule(path=PATHS)
    def use(self, path):
        self.tree.used(self.tree.path([place.key for place in places(path)]))

    @rule(path=PATHS)
    def hold(self, path):
        block = self.tree.holding([place.key for place in places(path)])
        nodes = block.__enter__()
        self.holds.append((block, nodes))

    @rule(path=PATHS)
    def read(self, path):
        with self.tree.holding([place.key for place in places(path)]) as nodes:
            for node in nodes:
                kv, _ = self.tree.read(node)
                assert kv[0] == node.key

    @rule()
    def release(self):
        if self.holds:
            self.holds.pop(0)[0].__exit__(None, None, None)

    @rule(path=PATHS)
    def replicate(self, path):
        self.tree.replicate(places(path)[-1].key)

    @rule(chunk=st.sampled_from("abcde"))
    def delete(self, chunk):
        self.tree.delete(chunk)
        assert not any(chunk in node.key for node in all_nodes(self.tree))
        self.holds = [(block, [node for node in nodes if chunk not in node.key]) for block, nodes in self.holds]

    @rule(path=PATHS)
    def lose(self, path):
        for node in self.tree.path([place.key for place in places(path)])[-1:]:
            if not any(node in nodes for _, nodes in self.holds):
                del self.tree.tiers[node.level].store.held[node.key]
                self.tree.lost(node.key, node.level)

    @rule()
    def crash(self):
        slowest = self.tree.tiers[-1].store
        found = [(key, kv[1], record) for key, (kv, record) in slowest.held.items()]
        self.tree, self.holds = tree(*self.budgets, policy=self.policy()), []
        self.tree.tiers[-1].store.held = slowest.held
        for key in self.tree.restore(found):
            slowest.held.pop(key, None)

    @invariant()
    def laws(self):
        if hasattr(self, "tree"):
            check(self.tree)

    @invariant()
    def held_nodes_stay(self):
        for _, nodes in getattr(self, "holds", []):
            assert all(node.copies and node.key in self.tree for node in nodes)

    @invariant()
    def what_may_go_is_offered(self):
        """Whatever fills a tier, a newcomer finds room if anything there may go."""
        if not hasattr(self, "tree"):
            return
        for number, tier in enumerate(self.tree.tiers):
            valid = {entry[2].key for entry in tier._heap if (c := entry[2].copies.get(number)) and c.entry == entry[1]}
            free = {
                node.key
                for node in all_nodes(self.tree)
                if number in node.copies and node.holds == 0 and node.near[number] == 0
            }
            assert free <= valid


TestTree = TreeMachine.TestCase
TestTree.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
