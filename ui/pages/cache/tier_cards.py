"""HTML of the cache tiers, each with its budget, and of the hit statistics."""

import time

from backend.interface.cache import CacheView, StatsTotals, TierInfo
from ui.components.tiers import POLICIES, TIERS
from ui.figures.hit_rate import COLOURS
from ui.format import GIB, UNKNOWN, count, percent, size
from ui.html import Markup, fact, join, swatch, tag

_INSTANT_BYTES_PER_S = 5e11  # faster than any memory copies, so nothing was copied
_TIER = "Where keys and values (KV) are stored. KV evicted from a faster tier moves to the next slower one."
_CLOCK = (
    "GDSF's aging term: the highest priority evicted from this tier so far. A passage's priority is the clock plus its "
    "value, so an unused passage is evicted in the end, however expensive it was to compute."
)
_MEASURED = "Measured on this machine. KV is recomputed instead where loading would take longer."
_NOT_MEASURED = "Nothing has been loaded from this tier yet."
_NODES = "Passages with KV in this tier; each path through the knowledge tree counts separately."
_BUDGET = (
    "Takes effect immediately and is saved, unless --gpu-cache-gib, --cpu-cache-gib or --disk-cache-gib overrides it "
    "at the next start."
)
_KINDS = (
    ("exact", "Exact prefix hit", "The same passages in the same order were cached: reused without recomputation."),
    ("chunk", "Chunk hit", "Cached from another position: its keys are re-rotated and the method recomputes a part."),
    ("missed", "Miss", "Not in the cache, or slower to load than to compute."),
    ("full", "No lookup", "The method computes everything, as full prefill does; counts neither as hit nor as miss."),
)


def render_tier_cards(view: CacheView, rejected: bool = False) -> Markup:
    """Return one card per tier: size, budget, load speed and clock.

    rejected  whether a budget was rejected; without any change in the HTML, a moved slider would stay moved
    """
    cards = map(_tier_card, view.tiers, view.max_budget_bytes)
    return tag("div", *cards, class_="kv-tiers", data_refusal=time.monotonic_ns() if rejected else None)


def render_policy(view: CacheView) -> Markup:
    """Return a sentence about tiers, budgets and the eviction policy."""
    formula = POLICIES[view.policy.lower()].formula
    return tag(
        "p",
        "Each ",
        tag("span", "tier", title=_TIER, class_="kv-term"),
        " has a budget. When it is full, the passage with the lowest ",
        tag("span", "priority", title=formula, class_="kv-term"),
        f" is evicted to the next slower tier, and finally from the cache. {formula}",
        class_="kv-muted",
    )


def render_legend(view: CacheView, num_drawn: int) -> Markup:
    """Return the colours of the tree, and how many of the passages are drawn."""
    items = [tag("span", swatch(TIERS[tier.name].colour), TIERS[tier.name].name) for tier in view.tiers]
    pinned = tag("span", tag("span", class_="kv-swatch kv-swatch-pinned", aria_hidden="true"), "pinned")
    total = len(view.passages)
    summary = f"{num_drawn} of {total:,} passages; the smallest are merged."
    if num_drawn == total:
        summary = f"{count(total, 'passage')}."
    return join(tag("p", *items, pinned, class_="kv-tree-legend"), tag("p", summary, class_="kv-muted"))


def render_totals(totals: StatsTotals) -> Markup:
    """Return the hit rate and the tokens by cache result, with the figure's colours."""
    if not totals.questions:
        return tag("p", "Ask a question to see the cache hit rate.", class_="kv-muted")
    rate = tag(
        "p",
        tag("strong", UNKNOWN if totals.hit_rate is None else percent(totals.hit_rate)),
        f" cache hit rate over {count(totals.questions, 'question')}.",
        title="Tokens of exact prefix hits and chunk hits / all tokens that were looked up.",
        class_="kv-rate",
    )
    total = totals.exact + totals.chunk + totals.missed + totals.full
    if not total:
        return rate
    rows = []
    for kind, name, tooltip in _KINDS:
        tokens = getattr(totals, kind)
        share = join(count(tokens, "token"), tag("small", percent(tokens / total)))
        rows.append(fact(join(swatch(COLOURS[kind]), name), share, tooltip))
    return join(rate, tag("dl", *rows, class_="kv-kinds"))


def _tier_card(tier: TierInfo, max_budget_bytes: int) -> Markup:
    label = TIERS[tier.name]
    speed = UNKNOWN
    if tier.ms_per_byte:
        bytes_per_s = 1e3 / tier.ms_per_byte
        speed = "instant" if bytes_per_s > _INSTANT_BYTES_PER_S else f"{size(round(bytes_per_s))}/s"
    budget_gib = tier.budget_bytes / GIB
    usage = tier.size_bytes / tier.budget_bytes if tier.budget_bytes else 0.0
    bar = tag("span", class_="kv-bar-fill", style=f"width:{min(100.0, 100 * usage):.1f}%;background:{label.colour}")
    slider = tag(
        "input",
        type="range",
        min="0",
        max=f"{max(0.5, max_budget_bytes / GIB):.1f}",
        step="0.1",
        value=f"{budget_gib:.1f}",
        data_act="budget",
        data_id=tier.name,
        aria_label=f"Budget of {label.name}, in GiB",
        title=_BUDGET,
    )
    return tag(
        "section",
        tag("h3", swatch(label.colour), label.name, tag("small", label.speed)),
        tag("p", tag("strong", size(tier.size_bytes)), f" · {percent(usage, 1)} of the budget", class_="kv-used"),
        tag("div", bar, class_="kv-bar", aria_hidden="true"),
        tag("label", tag("span", "Budget", title=_BUDGET), tag("output", f"{budget_gib:.1f} GiB"), slider),
        tag(
            "dl",
            fact("Passages", f"{tier.num_nodes:,}", _NODES),
            fact("Load speed", speed, _MEASURED if tier.ms_per_byte else _NOT_MEASURED),
            fact("Clock", f"{tier.clock:,.2f}", _CLOCK),
        ),
        class_="kv-tier-card",
        aria_label=f"{label.name} tier",
    )
