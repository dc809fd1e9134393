"""Names, colours and explanations of the cache tiers and eviction policies, for all pages."""

from typing import NamedTuple


class TierLabel(NamedTuple):
    """How the UI presents one tier."""

    name: str  # on its own: 'Memory'
    location: str  # in a sentence: 'in memory'
    colour: str  # in figures; dark enough for white text on it, in both themes
    speed: str  # a few words about speed and lifetime
    source: str  # where reused KV was found: 'already in memory'

    @property
    def noun(self) -> str:
        """The name inside a sentence: 'GPU memory', 'memory', 'disk'."""
        return self.location.partition(" ")[2]


TIERS = {
    "device": TierLabel("GPU memory", "in GPU memory", "#6d5bc4", "fastest, smallest", "already in GPU memory"),
    "host": TierLabel("Memory", "in memory", "#1f7d71", "fast, lost on restart", "already in memory"),
    "disk": TierLabel("Disk", "on disk", "#4a6fa8", "slower, survives a restart", "loaded from disk"),
    "remote": TierLabel(
        "KV server", "on the KV server", "#8a5a2b", "shared with other KVScope instances", "read from the KV server"
    ),
}


class PolicyLabel(NamedTuple):
    """How the UI presents one eviction policy: a choice in the settings, and its formula."""

    choice: str
    formula: str


POLICIES = {
    "pgdsf": PolicyLabel(
        "PGDSF: cost-aware (default)",
        "Priority = clock + uses \u00d7 measured milliseconds to recompute one of its tokens (PGDSF, RAGCache).",
    ),
    "gdsf": PolicyLabel("GDSF: frequency and recency", "Priority = clock + uses (GDSF)."),
    "lru": PolicyLabel("LRU: least recently used", "Priority = time of last use (LRU)."),
    "lfu": PolicyLabel("LFU: least frequently used", "Priority = number of uses (LFU)."),
}
