"""HTML of the Library's cache details: tiers with their budgets, cached passages, confirmations, and hit statistics."""

import time
from collections.abc import Mapping, Sequence

from backend.interface.cache import CachedPassage, CacheView, KVServerUsage, NodeInfo, QueryStats, TierInfo
from ui.components.excerpt import render_text
from ui.components.tiers import POLICIES, TIERS
from ui.figures.hit_rate import COLOURS
from ui.format import GIB, UNKNOWN, cost_per_token, count, duration, percent, size
from ui.html import Markup, button, fact, join, swatch, tag
from ui.pages.cache.tree import UNKNOWN_PASSAGE, Box, age_label, short_name

PIN_LASTS = "until KVScope exits or other settings are loaded"
_FREQUENCY = "How often questions, or adding its document, used this passage; includes earlier runs of KVScope."
_PRIORITY = "Its value in this tier. When the tier is full, the lowest priority is evicted first."
_PATH = "Its keys and values (KV) are exact only if these passages precede it, in this order."
_PIN = f"Keeps this passage and those before it in the cache {PIN_LASTS}. Deleting the document removes them anyway."
_EVICT = "Remove its keys and values (KV) from the cache. The document is not changed."
_INSTANT_BYTES_PER_S = 5e11  # faster than any memory copies, so nothing was copied
_TIER = "Where keys and values (KV) are stored. KV evicted from a faster tier moves to the next slower one."
_CLOCK = (
    "GDSF's aging term: the highest priority evicted from this tier so far. A passage's priority is the clock plus its "
    "value, so an unused passage is evicted in the end, however expensive it was to compute."
)
_MEASURED = "Measured on this machine. KV is recomputed instead where loading would take longer."
_NOT_MEASURED = "Nothing has been loaded from this tier yet."
_NODES = "Passages with KV in this tier; each path through the knowledge tree counts separately."
_SERVER_HITS = "Passages whose keys and values (KV) another KVScope had computed, and this one read."
_SERVER_MISSES = "Passages that were not on the server, or that it delivered too late; they were computed here."
_SERVER_READ = "Since the models were loaded."
_SERVER_WRITTEN = "Since the models were loaded; written after the first token of an answer."
_SERVER_FAILURES = "Times that the server did not answer; it is then left alone for some seconds."
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
    """Return one card per tier: size, budget, load speed and clock; `rejected` says whether a budget was rejected."""
    cards = map(_tier_card, view.tiers, view.max_budget_bytes)
    # Without any change in the HTML, the slider of a rejected budget would stay moved.
    server = _server_card(view.kv_server) if view.kv_server else None
    return tag("div", *cards, server, class_="kv-tiers", data_refusal=time.monotonic_ns() if rejected else None)


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


def render_totals(totals: QueryStats) -> Markup:
    """Return the hit rate and the tokens by cache result, with the figure's colours."""
    if not totals.number:
        return tag("p", "Ask a question to see the cache hit rate.", class_="kv-muted")
    rate = tag(
        "p",
        tag("strong", UNKNOWN if totals.hit_rate is None else percent(totals.hit_rate)),
        f" cache hit rate over {count(totals.number, 'question')}.",
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


def render_node_list(boxes: Sequence[Box]) -> Markup:
    """Return the boxes of the figure as a list of buttons; arrow keys move between them."""
    first = next((box for box in boxes if box.passage is not None), None)
    rows = [_list_row(box, is_first=box is first) for box in boxes if box.depth]
    return tag("ul", *rows, class_="kv-nodes", aria_label="Cached passages") if rows else Markup("")


def render_details(view: CacheView, key: str, confirm_evict: bool = False) -> Markup:
    """Return one passage: its text, its statistics, and its actions or the confirmation of its eviction."""
    by_key = {passage.node.key: passage for passage in view.passages}
    if (passage := by_key.get(key)) is None:
        hint = "This passage is no longer in the cache." if key else "Select a box or a line to see its passage."
        return tag("p", hint, class_="kv-muted kv-empty")
    node = passage.node
    chunk = passage.chunk
    subtitle = short_name(passage) if chunk else "Its text is unknown; it will be evicted when space is needed."
    cost = UNKNOWN
    if node.ms_per_token:
        cost = f"{duration(node.ms_per_token * node.tokens)}, {cost_per_token(node.ms_per_token)}"
    priorities = (
        fact(f"Priority, {TIERS[replica.tier].noun}", f"{replica.priority:,.2f}", _PRIORITY)
        for replica in node.replicas
    )
    return tag(
        "article",
        tag("h3", tag("bdi", chunk.document_name) if chunk else UNKNOWN_PASSAGE, tag("small", subtitle)),
        tag("p", *_badges(node), class_="kv-badges"),
        render_text(chunk.text, "Text of the passage") if chunk else None,
        _path(passage, by_key),
        tag(
            "dl",
            fact("Frequency", f"used {count(node.frequency, 'time')}", _FREQUENCY),
            fact("Cost", cost, "Mean measured time to compute it on this machine, which is what caching it saves."),
            fact("Age", age_label(node), "Uses of any passage since this one was last used."),
            *priorities,
            class_="kv-node-facts",
        ),
        _confirm_evict(view, node) if confirm_evict else _actions(node),
        class_="kv-node",
    )


def render_page_actions(confirm_clear: bool, has_passages: bool) -> Markup:
    """Return the buttons of the page: refresh, and clear, which has to be confirmed."""
    if not confirm_clear:
        refresh = button("refresh", "", "Refresh", title="Show the current state of the cache.")
        clear = button("clear", "", "Clear…", title="Remove everything from the cache.", disabled=not has_passages)
        return tag("div", refresh, clear, class_="kv-actions")
    return _confirm(
        "Clear cache?",
        "Clear the cache? Documents are kept; questions recompute what they need.",
        button("clear-all", "", "Clear", class_="kv-danger"),
    )


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
        tag("label", tag("span", "Budget", title=_BUDGET), tag("output", size(tier.budget_bytes)), slider),
        tag(
            "dl",
            fact("Passages", f"{tier.num_nodes:,}", _NODES),
            fact("Load speed", speed, _MEASURED if tier.ms_per_byte else _NOT_MEASURED),
            fact("Clock", f"{tier.clock:,.2f}", _CLOCK),
        ),
        class_="kv-tier-card",
        aria_label=f"{label.name} tier",
    )


def _server_card(server: KVServerUsage) -> Markup:
    label = TIERS["remote"]
    return tag(
        "section",
        tag("h3", swatch(label.colour), label.name, tag("small", label.speed)),
        tag("p", tag("strong", server.address), class_="kv-used"),
        tag("p", server.error or "Connected.", class_="kv-note" if server.error else "kv-muted"),
        tag(
            "dl",
            fact("Passages read", f"{server.hits:,}", _SERVER_HITS),
            fact("Missed or too late", f"{server.misses:,}", _SERVER_MISSES),
            fact("Read", size(server.read_bytes), _SERVER_READ),
            fact("Written", size(server.written_bytes), _SERVER_WRITTEN),
            fact("Failures", f"{server.failures:,}", _SERVER_FAILURES),
        ),
        class_="kv-tier-card",
        aria_label=label.name,
    )


def _list_row(box: Box, is_first: bool) -> Markup:
    if box.passage is None:
        class_ = "kv-node-more" if box.is_merged else "kv-node-group"
        totals = f"{count(box.num_passages, 'passage')} · {size(box.total_bytes)}"
        return tag("li", _label(box), tag("small", totals), class_=class_)
    node = box.passage.node
    tiers = ", ".join(TIERS[replica.tier].noun for replica in node.replicas)
    return tag(
        "li",
        button(
            "choose",
            node.key,
            swatch(TIERS[node.replicas[0].tier].colour),
            _label(box),
            tag("b", "pinned") if node.pinned else None,
            tag("small", f"{size(box.own_bytes)} · {tiers}"),
            tabindex="0" if is_first else "-1",
        ),
        class_=f"kv-depth-{min(box.depth, 6)}",
    )


def _label(box: Box) -> Markup:
    """Return the label of a box; one with the name of a document is never translated."""
    is_plain = box.is_merged or (box.passage is not None and box.label == short_name(box.passage))
    return tag("span" if is_plain else "bdi", box.label, class_="kv-clip")


def _path(passage: CachedPassage, by_key: Mapping[str, CachedPassage]) -> Markup | None:
    """Return the passages before this one on its path, outermost first; None if there are none."""
    steps: list[Markup] = []
    while (parent := passage.node.parent) is not None:
        passage = by_key[parent]
        name = join(tag("bdi", passage.chunk.document_name), " · ") if passage.chunk else None
        steps.insert(0, tag("li", button("choose", parent, name, tag("span", short_name(passage)))))
    if not steps:
        return None
    title = tag("span", "Computed after", title=_PATH, class_="kv-term")
    return tag("div", tag("p", title, class_="kv-muted"), tag("ol", *steps), class_="kv-path")


def _badges(node: NodeInfo) -> list[Markup]:
    badges = [
        tag("span", f"{TIERS[replica.tier].name} {size(replica.size_bytes)}", class_="kv-badge kv-tier-host")
        for replica in node.replicas
    ]
    badges.append(tag("span", count(node.tokens, "token"), class_="kv-badge"))
    if node.pinned:
        badges.append(tag("span", "pinned", class_="kv-badge kv-tier-computed"))
    elif node.protected_by_pin:
        tooltip = "A passage computed after it is pinned, so it stays in the cache too."
        badges.append(tag("span", "protected by a pin", class_="kv-badge kv-tier-computed", title=tooltip))
    if node.in_use:
        badges.append(tag("span", "in use", class_="kv-badge"))
    return badges


def _actions(node: NodeInfo) -> Markup:
    evict = "Unpin it, or the pinned passages after it, first." if node.protected_by_pin else _EVICT
    return tag(
        "div",
        button("unpin" if node.pinned else "pin", node.key, "Unpin" if node.pinned else "Pin", title=_PIN),
        button("evict", node.key, "Evict…", title=evict, disabled=node.protected_by_pin),
        class_="kv-actions",
    )


def _confirm_evict(view: CacheView, node: NodeInfo) -> Markup:
    keys = {node.key}
    for passage in view.passages:  # parents precede their children
        if passage.node.parent in keys:
            keys.add(passage.node.key)
    later = len(keys) - 1
    also = f" and {count(later, 'passage')} computed after it" if later else ""
    question = f"Evict this passage{also}? The document is kept; a question that needs the passage recomputes it."
    if len(node.replicas) == 1:
        return _confirm("Evict?", question, button("evict-all", node.key, "Evict", class_="kv-danger"))
    by_tier = (
        button("evict-one", node.key, f"From {TIERS[replica.tier].noun} only", data_tier=replica.tier)
        for replica in node.replicas
    )
    everywhere = button("evict-all", node.key, "From all tiers", class_="kv-danger")
    return _confirm("Evict?", question, everywhere, *by_tier)


def _confirm(title: str, question: str, *buttons: Markup) -> Markup:
    actions = tag("div", *buttons, button("keep", "", "Cancel"), class_="kv-actions")
    return tag("div", tag("p", question), actions, class_="kv-confirm", role="group", aria_label=title)
