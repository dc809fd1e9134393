"""Any sequence of insert, use, read, hold, release, copy, pin, evict, resize, delete, lose, crash and reopen keeps the
tree's laws.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.cache.admin import CacheAdmin
from engine.cache.eviction import POLICIES
from engine.errors import StaysInCache
from tests.support.trees import all_nodes, check, grow, places, tree

PATHS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=4)
SIZES = st.integers(1, 25)


class TreeMachine(RuleBasedStateMachine):
    @initialize(policy=st.sampled_from(sorted(POLICIES)), budgets=st.lists(st.integers(0, 80), min_size=1, max_size=3))
    def build(self, policy, budgets):
        self.policy, self.budgets = POLICIES[policy], budgets
        self.tree, self.holds, self.pinned = tree(*budgets, policy=self.policy()), [], set()

    @rule(path=PATHS, size=SIZES, cost=st.floats(0, 10))
    def insert(self, path, size, cost):
        grow(self.tree, path, size, cost)

    @rule(path=PATHS)
    def use(self, path):
        self.tree.record_hit(self.tree.match_prefix([place.key for place in places(path)]))

    @rule(path=PATHS)
    def hold(self, path):
        block = self.tree.pinned_while([place.key for place in places(path)])
        nodes = block.__enter__()
        self.holds.append((block, nodes))

    @rule(path=PATHS)
    def read(self, path):
        with self.tree.pinned_while([place.key for place in places(path)]) as nodes:
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

    @rule(path=PATHS, pinned=st.booleans())
    def pin(self, path, pinned):
        key = places(path)[-1].key
        if key in self.tree:
            CacheAdmin(self.tree).pin(key, pinned)
            (self.pinned.add if pinned else self.pinned.discard)(key)

    @rule(path=PATHS, number=st.one_of(st.none(), st.integers(0, 2)))
    def evict(self, path, number):
        (node,) = self.tree.match_prefix([place.key for place in places(path)])[len(path) - 1 :] or [None]
        if node is None or (number is not None and number >= len(self.budgets)):
            return
        before = {other.key: set(other.copies) for other in all_nodes(self.tree)}
        behind = [other for other in all_nodes(self.tree) if node in (other, *other.ancestors())]
        numbers = set(range(len(self.budgets)) if number is None else [number])
        stays = any(other.pinned or other.holds for other in behind)
        try:
            CacheAdmin(self.tree).evict(node.key, None if number is None else self.tree.tiers[number].name)
            assert not stays and not any(numbers & other.copies.keys() for other in behind)
        except StaysInCache:
            assert stays
            behind = []
        others = [key for key in before if key not in {other.key for other in behind}]
        assert all(set(self.tree._copies.nodes[key].copies) == before[key] for key in others)

    @rule(number=st.integers(0, 2), budget=st.integers(0, 80))
    def resize(self, number, budget):
        if number >= len(self.budgets):
            return
        staying = sum(n.copies[number].size_bytes for n in all_nodes(self.tree) if number in n.copies and n.stays)
        try:
            CacheAdmin(self.tree).set_budgets({self.tree.tiers[number].name: budget})
            assert staying <= budget == self.tree.tiers[number].budget_bytes
            self.budgets[number] = budget
        except StaysInCache:
            assert staying > budget and self.tree.tiers[number].budget_bytes == self.budgets[number]

    @rule(chunk=st.sampled_from("abcde"))
    def delete(self, chunk):
        self.tree.delete(chunk)
        assert not any(chunk in node.key for node in all_nodes(self.tree))
        self.holds = [(block, [node for node in nodes if chunk not in node.key]) for block, nodes in self.holds]
        self.pinned = {key for key in self.pinned if chunk not in key}

    @rule(path=PATHS)
    def lose(self, path):
        for node in self.tree.match_prefix([place.key for place in places(path)])[-1:]:
            if not any(node in nodes for _, nodes in self.holds) and not node.pins:
                del self.tree.tiers[node.level].store.held[node.key]
                self.tree.lost(node.key, node.level)

    @rule()
    def crash(self):
        slowest = self.tree.tiers[-1].store
        found = [(key, kv[1], record) for key, (kv, record) in slowest.held.items()]
        self.tree, self.holds, self.pinned = tree(*self.budgets, policy=self.policy()), [], set()
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
    def pinned_nodes_and_all_before_them_stay(self):
        for key in getattr(self, "pinned", []):
            node = self.tree._copies.nodes[key]
            assert node.pinned and all(one.copies for one in (node, *node.ancestors()))

    @invariant()
    def the_snapshot_adds_up_to_the_tiers(self):
        if not hasattr(self, "tree"):
            return
        shown = CacheAdmin(self.tree).snapshot()
        for tier in shown.tiers:
            sizes = [copy.size_bytes for node in shown.nodes for copy in node.copies if copy.tier == tier.name]
            assert (sum(sizes), len(sizes)) == (tier.size_bytes, tier.nodes)

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
                if number in node.copies and node.holds == node.pins == 0 and node.near[number] == 0
            }
            assert free <= valid


TestTree = TreeMachine.TestCase
TestTree.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
