"""Cached passages as HTML: all that are drawn as a list of buttons, and one of them in full."""

from collections.abc import Sequence

from backend.interface.cache import CachedPassage, CacheView, NodeInfo
from ui.format import UNKNOWN, count, duration, size
from ui.html import Markup, join, tag
from ui.pages.cache.tier_cards import PIN_LASTS, TIERS
from ui.pages.cache.tree_figure import HUES
from ui.pages.cache.tree_nodes import Box, age_of, full_name, name_of

_DEEPEST = 6  # further steps of a path are not moved in any further
_FREQUENCY = (
    "How often a question, or the preparation of its document, used it; earlier starts of KVScope count as well."
)
_COST = "What computing it takes on this machine, mean over the times it was missing: what keeping it saves."
_AGE = "How many uses of any passage came since its own last."
_PRIORITY = "What it is worth in this tier. The lowest priority leaves first when room is short."
_PATH = "Its keys and values are exact where these passages stand before it, in this order."


def listed(boxes: Sequence[Box]) -> Markup:
    """Return the same boxes that the figure draws as a list of buttons; arrow keys move in it."""
    rows = [_row(box, first=place == _first(boxes)) for place, box in enumerate(boxes) if box.depth]
    return tag("ul", *rows, class_="kv-nodes", aria_label="Cached passages") if rows else Markup("")


def detail(view: CacheView, key: str, doomed: bool = False) -> Markup:
    """Return one passage: its text, what the policy knows of it, what can be done. `doomed` asks before evicting."""
    by_key = {passage.facts.key: passage for passage in view.passages}
    if (passage := by_key.get(key)) is None:
        said = "That passage is no longer in the cache." if key else "Choose a box or a line to see its passage."
        return tag("p", said, class_="kv-muted kv-empty")
    facts, chunk = passage.facts, passage.chunk
    where = name_of(passage) if chunk else "Its text is not known any more; it goes when room is short."
    head = tag("h3", tag("bdi", chunk.document_name if chunk else full_name(passage)), tag("small", where))
    path = [by_key[one] for one in _before(by_key, facts)]
    return tag(
        "article",
        head,
        tag("p", *_badges(facts), class_="kv-badges"),
        tag("div", chunk.text, class_="kv-passage", dir="auto", tabindex="0", role="region", aria_label="Its text")
        if chunk
        else None,
        _path(path) if path else None,
        tag(
            "dl",
            _fact("Frequency", f"used {count(facts.frequency, 'time')}", _FREQUENCY),
            _fact("Cost", _cost(facts), _COST),
            _fact("Age", age_of(facts), _AGE),
            *(
                _fact(f"Priority, {TIERS.get(copy.tier, copy.tier).lower()}", f"{copy.priority:,.2f}", _PRIORITY)
                for copy in facts.copies
            ),
            class_="kv-node-facts",
        ),
        _sure(view, facts) if doomed else _actions(facts),
        class_="kv-node",
    )


def _row(box: Box, first: bool) -> Markup:
    if box.passage is None:
        look = "kv-node-more" if box.merged else "kv-node-group"
        said = f"{count(box.passages, 'passage')} · {size(box.all_bytes)}"
        return tag("li", tag("bdi", box.label, class_="kv-clip"), tag("small", said), class_=look)
    facts = box.passage.facts
    places = ", ".join(TIERS.get(copy.tier, copy.tier).lower() for copy in facts.copies)
    swatch = tag("span", class_="kv-swatch", style=f"background:{HUES[facts.copies[0].tier]}", aria_hidden="true")
    return tag(
        "li",
        tag(
            "button",
            swatch,
            tag("bdi", box.label, class_="kv-clip"),
            tag("b", "pinned") if facts.pinned else None,
            tag("small", f"{size(box.own_bytes)} · {places}"),
            type="button",
            data_act="choose",
            data_id=facts.key,
            tabindex="0" if first else "-1",
        ),
        class_=f"kv-depth-{min(box.depth, _DEEPEST)}",
    )


def _first(boxes: Sequence[Box]) -> int:
    return next((place for place, box in enumerate(boxes) if box.passage is not None), -1)


def _before(by_key: dict[str, CachedPassage], facts: NodeInfo) -> list[str]:
    found: list[str] = []
    parent = facts.parent
    while parent is not None and parent in by_key:
        found.append(parent)
        parent = by_key[parent].facts.parent
    return found[::-1]


def _path(path: Sequence[CachedPassage]) -> Markup:
    steps = (
        tag("li", tag("button", full_name(one), type="button", data_act="choose", data_id=one.facts.key))
        for one in path
    )
    title = tag("span", "Computed behind", title=_PATH, class_="kv-term")
    return tag("div", tag("p", title, class_="kv-muted"), tag("ol", *steps), class_="kv-path")


def _badges(facts: NodeInfo) -> list[Markup]:
    said = [
        tag("span", f"{TIERS.get(copy.tier, copy.tier)} {size(copy.size_bytes)}", class_="kv-badge kv-tier-host")
        for copy in facts.copies
    ]
    said.append(tag("span", count(facts.tokens, "token"), class_="kv-badge"))
    if facts.pinned:
        said.append(tag("span", "pinned", class_="kv-badge kv-tier-computed"))
    elif facts.kept:
        title = "A passage that was computed behind it is pinned, so it stays as well."
        said.append(tag("span", "kept by a pin", class_="kv-badge kv-tier-computed", title=title))
    if facts.held:
        said.append(tag("span", "being read", class_="kv-badge"))
    return said


def _cost(facts: NodeInfo) -> str:
    if not facts.ms_per_token:
        return UNKNOWN
    return f"{duration(facts.ms_per_token * facts.tokens)}, {facts.ms_per_token:,.2f}\u00a0ms a token"


def _fact(name: str, value: str, meaning: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", value), title=meaning)


def _actions(facts: NodeInfo) -> Markup:
    pin = f"Pinned, it and all before it stay in the cache {PIN_LASTS}, or its document is deleted."
    evict = "Unpin it first, or what stands behind it." if facts.kept else "Remove its keys and values; its text stays."
    return tag(
        "div",
        _button("unpin" if facts.pinned else "pin", facts.key, "Unpin" if facts.pinned else "Pin", title=pin),
        _button("evict", facts.key, "Evict…", title=evict, disabled=facts.kept),
        class_="kv-actions",
    )


def _sure(view: CacheView, facts: NodeInfo) -> Markup:
    behind = len(_behind(view, facts.key))
    also = (
        f", and {count(behind, 'passage')} that {'was' if behind == 1 else 'were'} computed behind it" if behind else ""
    )
    some = [
        _button("evict-one", facts.key, f"From {TIERS.get(copy.tier, copy.tier).lower()} only", tier=copy.tier)
        for copy in facts.copies
        if len(facts.copies) > 1
    ]
    return tag(
        "div",
        tag("p", f"Evict this passage{also}? Its text stays; a question that needs it computes it again."),
        tag(
            "div",
            _button("evict-all", facts.key, "From everywhere" if some else "Evict", class_="kv-danger"),
            *some,
            _button("keep", facts.key, "Keep it"),
            class_="kv-actions",
        ),
        class_="kv-sure",
        role="group",
        aria_label="Evict?",
    )


def _behind(view: CacheView, key: str) -> set[str]:
    found = {key}
    for passage in view.passages:  # parents come before their children
        if passage.facts.parent in found:
            found.add(passage.facts.key)
    return found - {key}


def _button(act: str, key: str, label: str, tier: str = "", **attributes: object) -> Markup:
    return tag("button", label, type="button", data_act=act, data_id=key, data_tier=tier or None, **attributes)


def clearing(asked: bool, filled: bool) -> Markup:
    """Return the page's own buttons: look again, and clear, which asks first."""
    refresh = _button("refresh", "", "Refresh", title="Show the cache as it is now.")
    if not asked:
        clear = _button("clear", "", "Clear…", title="Remove everything that was computed.", disabled=not filled)
        return tag("div", refresh, clear, class_="kv-actions")
    said = tag("p", "Clear everything that was computed? Documents stay; questions compute what they need again.")
    buttons = tag(
        "div",
        _button("clear-all", "", "Clear", class_="kv-danger"),
        _button("keep", "", "Keep it"),
        class_="kv-actions",
    )
    return join(tag("div", said, buttons, class_="kv-sure", role="group", aria_label="Clear?"))
