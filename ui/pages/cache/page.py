"""The Cache page: what was computed, where it is kept and what it is worth; pin, evict, budgets, clear."""

import itertools
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.cache import CacheView, Evicted
from backend.interface.errors import user_message
from ui.events import QUIET, Update
from ui.figures.hit_rate import hits
from ui.format import count, size
from ui.html import Markup, join, tag
from ui.pages.cache.node_details import clearing, detail, listed
from ui.pages.cache.tier_cards import GIB, PIN_LASTS, TIERS, cards, legend, rule, served
from ui.pages.cache.tree_figure import tree
from ui.pages.cache.tree_nodes import boxes

_PROMISE = "What the model has computed for your passages, so that a question does not have to compute it again."
_EMPTY = "Nothing is kept yet. The tree fills with the first document: add one, and its passages are computed once."
_TREE = "Each box is one passage. A box to the right of another was computed behind it: together they are a path."
_EXACT = "A question that finds the same passages in the same order takes the path as it stands."
_CLICK = "Click a passage to read it; click a document to look closer, and again to go back."
_COUNTING = "Still finding out which passage is whose; dashes turn into names."
_STILL_COUNTING_S = 1.0
_ON_CLICK = "window.kvCache?.buttons(element, trigger);"
_ON_TREE = "window.kvCache?.tree(element, trigger);"


@dataclass(frozen=True)
class Shown:
    """What one session looks at. `doomed` is the key that waits for a yes, or 'all' for everything."""

    key: str = ""
    doomed: str = ""


class Cache:
    """Draws the page; what a session has chosen is in its State."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._refusals = itertools.count(1)

    def build(self, tab: gr.Tab) -> None:
        """Draw the page inside its open tab, and draw it anew whenever somebody looks at it."""
        with gr.Column(elem_id="cache", elem_classes="kv-page"):
            with gr.Row(elem_id="cache-head"):
                gr.HTML(join(tag("h2", "Cache"), tag("p", _PROMISE, class_="kv-muted")), js_on_load=None)
                self._buttons = gr.HTML(elem_id="cache-buttons", js_on_load=_ON_CLICK)
            self._said = gr.HTML(elem_id="cache-said", js_on_load=None)
            self._tiers = gr.HTML(elem_id="cache-tiers", js_on_load=_ON_CLICK)
            with gr.Column(visible=False, elem_id="cache-tree-part") as self._filled:
                explained = tag("p", f"{_TREE} {_EXACT} {_CLICK}", class_="kv-muted")
                gr.HTML(join(tag("h2", "Knowledge tree"), explained), js_on_load=None)
                self._legend = gr.HTML(elem_id="cache-legend", js_on_load=None)
                with gr.Row(elem_id="cache-tree-row", equal_height=False):
                    with gr.Column(elem_id="cache-drawn", min_width=0):
                        self._tree = gr.Plot(show_label=False, container=False, buttons=[], elem_id="cache-tree")
                        self._list = gr.HTML(elem_id="cache-list", js_on_load=_ON_TREE)
                    self._detail = gr.HTML(elem_id="cache-detail", js_on_load=_ON_CLICK)
            gr.HTML(tag("h2", "How questions were served"), elem_id="cache-hits-head", js_on_load=None)
            self._served = gr.HTML(elem_id="cache-served", js_on_load=None)
            self._hits = gr.Plot(visible=False, show_label=False, container=False, buttons=[], elem_id="cache-hits")
        self.shown, self._clock = gr.State(Shown()), gr.Timer(_STILL_COUNTING_S, active=False)
        everything = [
            *(self._buttons, self._said, self._tiers, self._filled, self._legend, self._tree, self._list),
            *(self._detail, self._served, self._hits, self.shown, self._clock),
        ]
        for event in (tab.select, self._clock.tick):
            event(self.refresh, self.shown, everything, queue=False, **QUIET)
        for part in (self._buttons, self._tiers, self._list, self._detail):
            part.click(self.act, self.shown, everything, queue=False, **QUIET)

    def refresh(self, shown: Shown) -> Update:
        """Return the whole page as it is now."""
        return self._drawn(replace(shown, doomed=""), "")

    def act(self, shown: Shown, event: gr.EventData) -> Update:
        """Follow a button, a slider, or a click into the tree."""
        data: dict[str, Any] = event._data
        act, key, more = str(data.get("act")), str(data.get("id")), str(data.get("more"))
        try:
            if act == "choose":
                return self._opened(Shown(key))
            if act in ("evict", "clear"):
                return self._opened(replace(shown, doomed=key or "all"))
            if act == "keep":
                return self._opened(replace(shown, doomed=""))
            return self._drawn(replace(shown, doomed=""), self._done(act, key, more, shown))
        except Exception as error:  # noqa: BLE001  the page's border
            return self._drawn(replace(shown, doomed=""), "", user_message(error))

    def _done(self, act: str, key: str, more: str, shown: Shown) -> str:
        """Do what was asked for; return what came of it in a sentence."""
        desk = self._backend.cache
        if act in ("pin", "unpin"):
            desk.pin(key, act == "pin")
            return f"Pinned: it stays {PIN_LASTS}." if act == "pin" else "Unpinned: it may leave when room is short."
        if act == "evict-all" and key == shown.doomed:
            return _evicted(desk.evict(key), "the cache")
        if act == "evict-one" and key == shown.doomed:
            return _evicted(desk.evict(key, more), TIERS.get(more, more).lower())
        if act == "clear-all" and shown.doomed == "all":
            self._backend.clear()
            return "Cleared. Questions compute what they need again."
        if act == "budget":
            gone = desk.set_budget(key, round(float(more) * GIB))
            name = TIERS.get(key, key)
            left = f" {_evicted(gone, name.lower())}" if gone.copies else ""
            return f"{name} may take {float(more):.1f} GiB now.{left}"
        return ""

    def _opened(self, shown: Shown) -> Update:
        """Return what a choice or a question changes: no clock draws the page anew under a question."""
        view = self._backend.cache.snapshot()
        return {
            self._detail: detail(view, shown.key, doomed=shown.key == shown.doomed != ""),
            self._buttons: clearing(shown.doomed == "all", bool(view.passages)),
            self._said: _message("" if view.counted else _COUNTING, ""),
            self._clock: gr.Timer(active=not view.counted and not shown.doomed),
            self.shown: shown,
        }

    def _drawn(self, shown: Shown, said: str, trouble: str = "") -> Update:
        try:
            view = self._backend.cache.snapshot()
        except Exception as error:  # noqa: BLE001  the page's border: before the models are there, for one
            return {
                self._said: _message("", user_message(error)),
                self._tiers: "",
                self._filled: gr.Column(visible=False),
                self._buttons: clearing(False, False),
                self._clock: gr.Timer(active=False),
            }
        drawn = boxes(view.passages)
        asked = any(one.exact + one.chunk + one.missed + one.full for one in view.recent)
        empty = "" if drawn else tag("p", _EMPTY, class_="kv-muted kv-empty")
        return {
            self._buttons: clearing(False, bool(drawn)),
            self._said: join(_message(said or ("" if view.counted else _COUNTING), trouble), empty),
            self._tiers: join(cards(view, next(self._refusals) if trouble else 0), rule(view)),
            self._filled: gr.Column(visible=bool(drawn)),
            self._legend: _legend(view, len([box for box in drawn if box.passage is not None])),
            self._tree: tree(drawn) if drawn else None,
            self._list: listed(drawn),
            self._detail: detail(view, shown.key),
            self._served: served(view.totals),
            self._hits: gr.Plot(hits(view.recent), visible=True) if asked else gr.Plot(visible=False),
            self.shown: shown,
            self._clock: gr.Timer(active=not view.counted),
        }


def _legend(view: CacheView, drawn: int) -> Markup:
    every = len(view.passages)
    said = (
        f"{count(every, 'passage')}." if drawn == every else f"{drawn} of {every:,} passages; the smallest are merged."
    )
    return join(legend(view.tiers), tag("p", said, class_="kv-muted"))


def _evicted(gone: Evicted, place: str) -> str:
    if not gone.copies:
        return "Nothing had to leave."
    left = f"{count(gone.copies, 'passage')} ({size(gone.size_bytes)}) left {place}"
    if not gone.gone:
        return f"{left}; still kept elsewhere."
    return f"{left}; {count(gone.gone, 'passage')} will be computed again when needed."


def _message(said: str, trouble: str) -> Markup:
    if trouble:
        return tag("p", trouble, class_="kv-trouble", role="alert", dir="auto")
    return tag("p", said, class_="kv-said", role="status") if said else Markup("")
