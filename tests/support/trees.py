"""A knowledge tree over plain bytes, and an independent check of what must always be true of it."""

from engine.cache.knowledge_tree import KnowledgeTree, NodeKey
from engine.cache.tier import Tier
from store.errors import StoreFull


class ByteStore:
    """A Store in a dict; KV is the pair (key, bytes). `full` makes it refuse."""

    def __init__(self):
        self.held, self.full = {}, False

    def size_of(self, kv):
        return kv[1]

    def takes_more(self):
        return True

    def put(self, key, kv, record):
        if self.full:
            raise StoreFull("No space left on device.")
        self.held[key] = (kv, record)

    def get(self, key):
        return self.held[key][0]

    def delete(self, key):
        self.held.pop(key, None)


def tree(*budgets, policy=None, stores=None):
    """A tree with a tier for each budget, the fastest first."""
    stores = stores or [ByteStore() for _ in budgets]
    return KnowledgeTree(
        [Tier(f"tier {n}", b, s) for n, (b, s) in enumerate(zip(budgets, stores, strict=True))], policy
    )


def places(chunks, tokens=10):
    """The places on the way to the end of a sequence of chunks."""
    keys = ["/".join(chunks[: end + 1]) for end in range(len(chunks))]
    return [
        NodeKey(key, chunk, parent, tokens) for key, chunk, parent in zip(keys, chunks, [None, *keys], strict=False)
    ]


def grow(made, chunks, size=10, cost=1.0):
    """Insert a whole path; return the nodes that found a place."""
    found = [made.insert(place, (place.key, size), cost) for place in places(chunks)]
    return [node for node in found if node is not None]


def all_nodes(made):
    return list(made._copies.nodes.values())


def check(made):
    """Every law of the tree that holds between two operations, computed anew from the nodes alone."""
    nodes = all_nodes(made)
    for number, tier in enumerate(made.tiers):
        here = [node for node in nodes if number in node.copies]
        assert tier.size_bytes == sum(node.copies[number].size_bytes for node in here) <= tier.budget_bytes
        assert tier.nodes == len(here)
        assert set(tier.store.held) == {node.key for node in here}
        pinned = {one.key for node in nodes if node.pinned for one in (node, *node.ancestors())}
        assert made._copies.pinned_bytes(number) == sum(n.copies[number].size_bytes for n in here if n.key in pinned)
        for node in here:
            assert tier.store.get(node.key)[0] == node.key
    for node in nodes:
        assert node.copies
        assert node.pins == sum(other.pinned for other in nodes if node in (other, *other.ancestors()))
        assert node.parent is None or (node.parent.key in made and node.parent.level <= node.level)
        assert node.near == [sum(child.level <= number for child in node.children) for number in range(len(made.tiers))]
        assert all(child.parent is node and child.key in made for child in node.children)
