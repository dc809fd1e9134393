"""Names, colours and explanations of the cache tiers and eviction policies, for all pages."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TierLabel:
    """How the UI presents one tier.

    name      on its own: 'Memory'
    location  in a sentence: 'in memory'
    colour    in figures; dark enough for white text on it, in both themes
    speed     a few words about speed and lifetime
    reused    tooltip of a passage whose KV came from this tier
    """

    name: str
    location: str
    colour: str
    speed: str
    reused: str

    @property
    def noun(self) -> str:
        """The name inside a sentence: 'GPU memory', 'memory', 'disk'."""
        return self.location.partition(" ")[2]


TIERS = {
    "device": TierLabel(
        "GPU memory",
        "in GPU memory",
        "#6d5bc4",
        "fastest, smallest",
        "Its keys and values (KV) were already in GPU memory.",
    ),
    "host": TierLabel(
        "Memory",
        "in memory",
        "#1f7d71",
        "fast, lost on restart",
        "Its keys and values (KV) were already in memory.",
    ),
    "disk": TierLabel(
        "Disk",
        "on disk",
        "#4a6fa8",
        "slower, survives a restart",
        "Its keys and values (KV) were loaded from disk.",
    ),
}


@dataclass(frozen=True, slots=True)
class PolicyLabel:
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
