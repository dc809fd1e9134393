"""The tiers of the cache as cards, each with its budget, and how questions were served, in words."""

from collections.abc import Sequence

from backend.interface.cache import CacheView, StatsTotals, TierInfo
from ui.figures.hit_rate import HUES as KIND_HUES
from ui.format import UNKNOWN, count, percent, size
from ui.html import Markup, join, tag
from ui.pages.cache.tree_figure import HUES

GIB = 2**30
PIN_LASTS = "until KVScope ends or other settings are loaded"
AT_ONCE = 5e11  # bytes a second: no memory copies as fast, so nothing was copied
TIERS = {"device": "GPU memory", "host": "Memory", "disk": "Disk"}
_SPEEDS = {"device": "the fastest, the smallest", "host": "fast, lost at restart", "disk": "slower, survives a restart"}
_CLOCK = (
    "The clock stands at the highest priority that was evicted here. A passage that is used again gets clock plus what "
    "it is worth, so whatever is not used falls behind, however dear it was."
)
_MEASURED = "Measured on this machine while passages were read. A tier read more slowly than computing is passed over."
_BUDGET = "Used at once and kept for the next start, unless --device-gib, --host-gib or --disk-gib sets another then."
_POLICIES = {
    "PGDSF": "Priority = clock + uses \u00d7 milliseconds to compute one of its tokens again (PGDSF, from RAGCache).",
    "GDSF": "Priority = clock + uses (GDSF).",
    "LRU": "Priority = how lately it was used (LRU).",
    "LFU": "Priority = uses (LFU).",
}


def cards(view: CacheView, refusal: int = 0) -> Markup:
    """Return a card for each tier: what it holds, of how much, how fast it is read, its clock, its budget.

    refusal  another number each time: the same markup would leave a slider where somebody has put it
    """
    return tag("div", *map(_card, view.tiers, view.limit_bytes), class_="kv-tiers", data_refusal=refusal or None)


def rule(view: CacheView) -> Markup:
    """Return a line that says what a tier is, and who goes when one is full."""
    tier = "A place to keep keys and values. What has to leave a faster tier moves to the next slower one."
    return tag(
        "p",
        "Each ",
        tag("span", "tier", title=tier, class_="kv-term"),
        " has a budget. When it is full, the passage of the lowest ",
        tag("span", "priority", title=_POLICIES.get(view.policy, view.policy), class_="kv-term"),
        " leaves: first to the next slower tier, then for good. ",
        _POLICIES.get(view.policy, ""),
        class_="kv-muted",
    )


def _card(tier: TierInfo, limit_bytes: int) -> Markup:
    name, budget = TIERS.get(tier.name, tier.name), tier.budget_bytes / GIB
    share = tier.size_bytes / tier.budget_bytes if tier.budget_bytes else 0.0
    rate = 1e3 / tier.ms_per_byte if tier.ms_per_byte else None  # bytes a second
    speed = UNKNOWN if rate is None else "at once" if rate > AT_ONCE else f"{size(round(rate))}/s"
    bar = tag("span", class_="kv-bar-fill", style=f"width:{min(100.0, 100 * share):.1f}%;background:{HUES[tier.name]}")
    slider = tag(
        "input",
        type="range",
        min="0",
        max=f"{max(0.5, limit_bytes / GIB):.1f}",
        step="0.1",
        value=f"{budget:.1f}",
        data_act="budget",
        data_id=tier.name,
        aria_label=f"Budget of {name}, in GiB",
        title=_BUDGET,
    )
    return tag(
        "section",
        tag("h3", _swatch(HUES[tier.name]), name, tag("small", _SPEEDS.get(tier.name, ""))),
        tag("p", tag("strong", size(tier.size_bytes)), f" · {percent(share, 1)} of the budget", class_="kv-used"),
        tag("div", bar, class_="kv-bar", aria_hidden="true"),
        tag("label", tag("span", "Budget", title=_BUDGET), tag("output", f"{budget:.1f} GiB"), slider),
        tag(
            "dl",
            _fact("Passages", f"{tier.nodes:,}", "Passages whose keys and values lie here, one for each path."),
            _fact("Reading speed", speed, _MEASURED if tier.ms_per_byte else "Nothing was read from here yet."),
            _fact("Clock", f"{tier.clock:,.2f}", _CLOCK),
        ),
        class_="kv-tier-card",
        aria_label=f"{name} tier",
    )


def _fact(name: str, value: str, meaning: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", value), title=meaning)


def _swatch(hue: str) -> Markup:
    return tag("span", class_="kv-swatch", style=f"background:{hue}", aria_hidden="true")


def legend(tiers: Sequence[TierInfo]) -> Markup:
    """Return what the colours of the tree mean."""
    shown = [tag("span", _swatch(HUES[tier.name]), TIERS.get(tier.name, tier.name)) for tier in tiers]
    pinned = tag("span", tag("span", class_="kv-swatch kv-swatch-pinned", aria_hidden="true"), "pinned")
    return tag("p", *shown, pinned, class_="kv-tree-legend")


def served(totals: StatsTotals) -> Markup:
    """Return the sums over all questions in words, each with the colour it has in the figure."""
    if not totals.questions:
        return tag("p", "Ask a question to see how much of what it reads was there already.", class_="kv-muted")
    everything = totals.exact + totals.chunk + totals.missed + totals.full
    kinds = (
        ("exact", "Exact prefix", "Read before in this order: used as it stands, nothing is recomputed."),
        ("chunk", "Found by content", "Read before somewhere else: keys are moved, and the method recomputes a part."),
        ("missed", "Computed", "Looked for and not there, or slower to read than to compute."),
        ("full", "Not looked for", "The method computes everything, as full prefill does: neither hit nor miss."),
    )
    rate = UNKNOWN if totals.hit_rate is None else percent(totals.hit_rate)
    lead = tag(
        "p",
        tag("strong", rate),
        f" of what {count(totals.questions, 'question')} looked for was there already.",
        title="TextTokenizer found, as an exact prefix or by content, of all tokens that were looked for.",
        class_="kv-rate",
    )
    rows = [
        tag(
            "div",
            tag("dt", _swatch(KIND_HUES[kind]), name),
            tag("dd", count(getattr(totals, kind), "token"), tag("small", percent(getattr(totals, kind) / everything))),
            title=meaning,
        )
        for kind, name, meaning in kinds
        if everything
    ]
    return join(lead, tag("dl", *rows, class_="kv-kinds"))
