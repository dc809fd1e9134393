"""A fake cache service: a real knowledge tree whose KV are byte counts."""

from backend.interface.cache import CachedPassage, CacheView
from engine.cache.admin import CacheAdmin, EvictionResult
from engine.cache.hit_stats import CacheStats
from engine.cache.knowledge_tree import KnowledgeTree
from engine.cache.tier import Record, Tier
from engine.request import Source
from store.types import Chunk
from tests.support.trees import ByteStore
from ui.format import GIB

MB = 10**6
TEXT = "Passage {n} of {name}. The Morning Gannet sails from the north pier in winter, and from the stone quay later. "


class FakeCache:
    """Empty until `fill`; stores no real KV."""

    def __init__(self, host_bytes: int = 3 * GIB // 2, disk_bytes: int = 8 * GIB) -> None:
        tiers = [Tier("host", host_bytes, ByteStore()), Tier("disk", disk_bytes, ByteStore())]
        self.tree = KnowledgeTree(tiers)
        self.stats = CacheStats()
        self.chunks: dict[str, Chunk] = {}
        self.error: Exception | None = None
        self.is_complete = True
        self.kv_server = None

    def fill(
        self, names: tuple[str, ...] = ("harbour-handbook.md", "fares.pdf"), each: int = 6, text: str = TEXT
    ) -> None:
        """Insert documents of `each` passages and a path of three; the last passage is on disk only."""
        for document, name in enumerate(names):
            for n in range(each):
                words = (text.format(n=n + 1, name=name) if text is TEXT else text) * 4
                key = f"{document:02x}{n:06x}"
                self.chunks[key] = Chunk(f"{document}-{n}", str(document), name, n, 1 + n // 2, 0, len(words), words)
                self._insert(key, Record(key, None, max(60, 480 - 20 * n)), (2.0 + n / 4 + document))
                self.tree.replicate(key)
        first, second, third = (f"{n % len(names):02x}{n % each:06x}" for n in range(3))
        self._insert(f"{first}/{second}", Record(second, first, 460), 3.1)
        self._insert(f"{first}/{second}/{third}", Record(third, f"{first}/{second}", 440), 3.9)
        self.tree.record_hit(self.tree.match_prefix([first, f"{first}/{second}"]))
        self._insert("ff", Record("ff", None, 300), 1.0)
        CacheAdmin(self.tree).evict(f"{len(names) - 1:02x}{each - 1:06x}", "host")
        self.tree.tiers[0].record_read(12 * MB, 4.0)

    def ask(self, exact: int = 0, chunk: int = 0, missed: int = 0, full: int = 0) -> None:
        """Count a question."""
        kinds = {"exact prefix hit": exact, "chunk hit": chunk, "miss": missed, "none": full}
        self.stats.record([_source(result, tokens) for result, tokens in kinds.items() if tokens])

    def snapshot(self) -> CacheView:
        if self.error:
            raise self.error
        tree = CacheAdmin(self.tree).snapshot()
        passages = (
            CachedPassage(node, self.chunks.get(node.chunk), "primary" if node.chunk in self.chunks else "other")
            for node in tree.nodes
        )
        max_budgets = (12 * GIB, 100 * GIB)
        return CacheView(
            tree.tiers,
            max_budgets,
            tuple(passages),
            tree.policy,
            self.stats.recent(),
            self.stats.totals(),
            self.kv_server,
            self.is_complete,
        )

    def pin(self, key: str, pinned: bool) -> None:
        CacheAdmin(self.tree).pin(key, pinned)

    def evict(self, key: str, tier: str | None = None) -> EvictionResult:
        return CacheAdmin(self.tree).evict(key, tier)

    def set_budget(self, tier: str, budget_bytes: int) -> EvictionResult:
        return CacheAdmin(self.tree).set_budgets({tier: budget_bytes})

    def _insert(self, key: str, record: Record, ms_per_token: float) -> None:
        self.tree.insert(key, record, (key, record.tokens * 46_080), ms_per_token)


def _source(result: str, tokens: int) -> Source:
    return Source(1, "a.md", "a", None, None, True, tokens, "host", 0, (), result)
