"""A knowledge tree over plain bytes, and an independent check of its invariants."""

from engine.cache.knowledge_tree import KnowledgeTree
from engine.cache.tier import Record, Tier
from store.errors import StoreFull


class ByteStore:
    """A Store in a dict; KV is a pair (key, bytes). `full` makes `put` fail.

    stored  KV and record by key
    """

    def __init__(self):
        self.stored = {}
        self.full = False

    def size_of(self, kv):
        return kv[1]

    def can_accept(self):
        return True

    def put(self, key, kv, record):
        if self.full:
            raise StoreFull("No space left on device.")
        self.stored[key] = (kv, record)

    def get(self, key):
        return self.stored[key][0]

    def delete(self, key):
        self.stored.pop(key, None)


def make_tree(*budgets, policy="pgdsf", stores=None):
    """A tree with one tier per budget, the fastest first."""
    stores = stores or [ByteStore() for _ in budgets]
    tiers = [
        Tier(f"tier {level}", budget, store) for level, (budget, store) in enumerate(zip(budgets, stores, strict=True))
    ]
    return KnowledgeTree(tiers, policy)


def path_keys(chunks):
    """The key of each node on the path of a chunk sequence."""
    return ["/".join(chunks[: end + 1]) for end in range(len(chunks))]


def insert_path(tree, chunks, size=10, cost=1.0):
    """Insert a whole path; return the nodes that were accepted."""
    keys = path_keys(chunks)
    nodes = [
        tree.insert(key, Record(chunk, parent, 10), (key, size), cost)
        for key, chunk, parent in zip(keys, chunks, [None, *keys], strict=False)
    ]
    return [node for node in nodes if node is not None]


def stored_records(tree):
    """What `restore` takes: the content of the slowest tier."""
    return [(key, *entry) for key, entry in tree.records().items()]


def all_nodes(tree):
    with tree.locked() as replicas:
        return list(replicas.nodes.values())


def all_keys(tree):
    return {node.key for node in all_nodes(tree)}


def check_invariants(tree):
    """Check every invariant that holds between two operations, computed from the nodes alone."""
    nodes = all_nodes(tree)
    for level, tier in enumerate(tree.tiers):
        members = [node for node in nodes if level in node.replicas]
        assert tier.size_bytes == sum(node.replicas[level].size_bytes for node in members) <= tier.budget_bytes
        assert tier.num_nodes == len(members)
        assert set(tier.store.stored) == {node.key for node in members}
        for node in members:
            assert tier.store.get(node.key)[0] == node.key
    for node in nodes:
        assert node.replicas
        assert node.pin_count == sum(other.pinned for other in nodes if node in other.path())
        assert node.parent is None or (node.parent.key in tree and node.parent.level <= node.level)
        assert all(child.parent is node and child.key in tree for child in node.children)
