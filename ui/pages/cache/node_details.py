"""HTML of cached passages: the list below the tree, the details of one passage, and confirmations."""

from collections.abc import Mapping, Sequence

from backend.interface.cache import CachedPassage, CacheView, NodeInfo
from ui.components.excerpt import render_text
from ui.components.tiers import TIERS
from ui.format import UNKNOWN, count, duration, size
from ui.html import Markup, button, fact, swatch, tag
from ui.pages.cache.tree import Box, age_label, full_name, short_name

PIN_LASTS = "until KVScope exits or other settings are loaded"
_MAX_INDENT = 6
_FREQUENCY = "How often questions, or adding its document, used this passage; includes earlier runs of KVScope."
_COST = "Mean measured time to compute it on this machine, which is what caching it saves."
_AGE = "Uses of any passage since this one was last used."
_PRIORITY = "Its value in this tier. When the tier is full, the lowest priority is evicted first."
_PATH = "Its keys and values (KV) are exact only if these passages precede it, in this order."
_PIN = f"Keeps this passage and those before it in the cache {PIN_LASTS}. Deleting the document removes them anyway."
_EVICT = "Remove its keys and values (KV) from the cache. The document is not changed."


def render_node_list(boxes: Sequence[Box]) -> Markup:
    """Return the boxes of the figure as a list of buttons; arrow keys move between them."""
    first = next((index for index, box in enumerate(boxes) if box.passage is not None), -1)
    rows = [_list_row(box, is_first=index == first) for index, box in enumerate(boxes) if box.depth]
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
        cost = f"{duration(node.ms_per_token * node.tokens)}, {node.ms_per_token:,.2f}\u00a0ms per token"
    priorities = (
        fact(f"Priority, {TIERS[replica.tier].noun}", f"{replica.priority:,.2f}", _PRIORITY)
        for replica in node.replicas
    )
    return tag(
        "article",
        tag("h3", tag("bdi", chunk.document_name if chunk else full_name(passage)), tag("small", subtitle)),
        tag("p", *_badges(node), class_="kv-badges"),
        render_text(chunk.text, "Text of the passage") if chunk else None,
        _path(passage, by_key),
        tag(
            "dl",
            fact("Frequency", f"used {count(node.frequency, 'time')}", _FREQUENCY),
            fact("Cost", cost, _COST),
            fact("Age", age_label(node), _AGE),
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


def _list_row(box: Box, is_first: bool) -> Markup:
    if box.passage is None:
        class_ = "kv-node-more" if box.is_merged else "kv-node-group"
        totals = f"{count(box.num_passages, 'passage')} · {size(box.total_bytes)}"
        return tag("li", tag("bdi", box.label, class_="kv-clip"), tag("small", totals), class_=class_)
    node = box.passage.node
    tiers = ", ".join(TIERS[replica.tier].noun for replica in node.replicas)
    return tag(
        "li",
        button(
            "choose",
            node.key,
            swatch(TIERS[node.replicas[0].tier].colour),
            tag("bdi", box.label, class_="kv-clip"),
            tag("b", "pinned") if node.pinned else None,
            tag("small", f"{size(box.own_bytes)} · {tiers}"),
            tabindex="0" if is_first else "-1",
        ),
        class_=f"kv-depth-{min(box.depth, _MAX_INDENT)}",
    )


def _path(passage: CachedPassage, by_key: Mapping[str, CachedPassage]) -> Markup | None:
    """Return the passages before this one on its path, outermost first; None if there are none."""
    steps: list[Markup] = []
    while (parent := passage.node.parent) is not None:
        passage = by_key[parent]
        steps.insert(0, tag("li", button("choose", parent, full_name(passage))))
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
