"""The Library's cache details: tier budgets, the knowledge tree with pinning and eviction, and cache hits."""

from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.cache import CacheView, EvictionResult
from backend.interface.errors import user_message
from ui.components.tiers import TIERS
from ui.events import INSTANT, Update
from ui.figures.hit_rate import hit_rate_figure
from ui.format import GIB, count, size
from ui.html import Markup, error_box, join, tag
from ui.pages.cache import view
from ui.pages.cache.tree import boxes, tree_figure

_INTRO = "Keys and values (KV) that were computed for your passages. Questions reuse them instead of recomputing them."
_EMPTY = "The cache is empty. Add a document: its passages are computed once and cached here."
_TREE = (
    "Each box is one passage. A box to the right of another was computed after it; together they form a path. A "
    "question that retrieves the same passages in the same order reuses the path without recomputation. "
    "Click a passage to read it; click a document to zoom in, and again to zoom out."
)
_MATCHING = "Matching cached data to passages; names appear shortly."
_ON_CLICK = "window.kvCache?.buttons(element, trigger);"
_ON_TREE = "window.kvCache?.tree(element, trigger);"


@dataclass(frozen=True)
class Selection:
    """What one session has selected: a passage's key, and what has to be confirmed (a key, or 'all')."""

    key: str = ""
    pending: str = ""


class Cache:
    """The part; what a session has selected is kept in its State `selection`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def build(self, tab: gr.Tab) -> None:
        with gr.Column(elem_id="cache"):
            with gr.Row(elem_id="cache-head"):
                gr.HTML(tag("p", _INTRO, class_="kv-muted"), js_on_load=None)
                self.actions = gr.HTML(elem_id="cache-buttons", js_on_load=_ON_CLICK)
            self.message = gr.HTML(elem_id="cache-message", js_on_load=None)
            self._tiers = gr.HTML(elem_id="cache-tiers", js_on_load=_ON_CLICK)
            with gr.Column(visible=False, elem_id="cache-tree-part") as self.tree_part:
                gr.HTML(join(tag("h2", "Knowledge tree"), tag("p", _TREE, class_="kv-muted")), js_on_load=None)
                self._legend = gr.HTML(elem_id="cache-legend", js_on_load=None)
                with gr.Row(elem_id="cache-tree-row", equal_height=False):
                    with gr.Column(elem_id="cache-drawn", min_width=0):
                        self.tree_plot = gr.Plot(show_label=False, container=False, buttons=[], elem_id="cache-tree")
                        self.node_list = gr.HTML(elem_id="cache-list", js_on_load=_ON_TREE)
                    self.details = gr.HTML(elem_id="cache-detail", js_on_load=_ON_CLICK)
            gr.HTML(tag("h2", "Cache hits"), elem_id="cache-hits-head", js_on_load=None)
            self._totals = gr.HTML(elem_id="cache-totals", js_on_load=None)
            self._hits = gr.Plot(visible=False, show_label=False, container=False, buttons=[], elem_id="cache-hits")
        self.selection = gr.State(Selection())
        self.poll = gr.Timer(1.0, active=False)  # runs while passages are being matched to nodes
        outputs = [
            *(self.actions, self.message, self._tiers, self.tree_part, self._legend, self.tree_plot, self.node_list),
            *(self.details, self._totals, self._hits, self.selection, self.poll),
        ]
        for event in (tab.select, self.poll.tick):
            event(self.refresh, self.selection, outputs, **INSTANT)
        for part in (self.actions, self._tiers, self.node_list, self.details):
            part.click(self.act, self.selection, outputs, **INSTANT)

    def refresh(self, selection: Selection) -> Update:
        return self._draw(replace(selection, pending=""))

    def act(self, selection: Selection, event: gr.EventData) -> Update:
        """Handle a button, a budget slider, or a click on the tree."""
        data: dict[str, Any] = event._data
        action, key, argument = str(data.get("act")), str(data.get("id")), str(data.get("more"))
        done = replace(selection, pending="")
        try:
            if action == "choose":
                selected = Selection(key)
            elif action in ("evict", "clear"):
                selected = replace(selection, pending=key or "all")
            elif action == "keep":
                selected = done
            else:
                return self._draw(done, self._run(action, key, argument, selection.pending))
            snapshot = self._backend.cache.snapshot()
            return self._draw_selected(selected, snapshot, _message(snapshot))
        except Exception as error:  # noqa: BLE001  the UI's boundary
            return self._draw(done, error=user_message(error))

    def _run(self, action: str, key: str, argument: str, confirmed: str) -> str:
        """Run an action and return its result as a sentence; nothing is removed unless `confirmed` names it."""
        cache = self._backend.cache
        if action == "pin":
            cache.pin(key, True)
            return f"Pinned: the passage stays in the cache {view.PIN_LASTS}."
        if action == "unpin":
            cache.pin(key, False)
            return "Unpinned: the passage can be evicted when space is needed."
        if action == "evict-all" and key == confirmed:
            return _evicted(cache.evict(key), "the cache")
        if action == "evict-one" and key == confirmed:
            return _evicted(cache.evict(key, argument), TIERS[argument].noun)
        if action == "clear-all" and confirmed == "all":
            self._backend.clear()
            return "Cache cleared. Questions recompute what they need."
        if action == "budget":
            evicted = cache.set_budget(key, round(float(argument) * GIB))
            result = f"{TIERS[key].name} budget set to {size(round(float(argument) * GIB))}."
            return f"{result} {_evicted(evicted, TIERS[key].noun)}" if evicted.num_replicas else result
        return ""

    def _draw_selected(self, selection: Selection, snapshot: CacheView, message: Markup) -> Update:
        """Return what a selection or a confirmation changes; polling pauses while a confirmation is shown."""
        return {
            self.details: view.render_details(snapshot, selection.key, selection.key == selection.pending != ""),
            self.actions: view.render_page_actions(selection.pending == "all", bool(snapshot.passages)),
            self.message: message,
            self.poll: gr.Timer(active=not snapshot.is_complete and not selection.pending),
            self.selection: selection,
        }

    def _draw(self, selection: Selection, result: str = "", error: str = "") -> Update:
        try:
            snapshot = self._backend.cache.snapshot()
        except Exception as exception:  # noqa: BLE001  the UI's boundary, e.g. before the models are loaded
            return {
                self.message: error_box(user_message(exception)),
                self._tiers: "",
                self.tree_part: gr.Column(visible=False),
                self.actions: view.render_page_actions(False, False),
                self.poll: gr.Timer(active=False),
            }
        drawn = boxes(snapshot.passages)
        message = error_box(error) if error else _message(snapshot, result)
        if not drawn:
            message = join(message, tag("p", _EMPTY, class_="kv-muted kv-empty"))
        hits = hit_rate_figure(snapshot.recent_queries)
        return self._draw_selected(selection, snapshot, message) | {
            self._tiers: join(view.render_tier_cards(snapshot, rejected=bool(error)), view.render_policy(snapshot)),
            self.tree_part: gr.Column(visible=bool(drawn)),
            self._legend: view.render_legend(snapshot, sum(box.passage is not None for box in drawn)),
            self.tree_plot: tree_figure(drawn) if drawn else None,
            self.node_list: view.render_node_list(drawn),
            self._totals: view.render_totals(snapshot.totals),
            self._hits: gr.Plot(hits if hits.data else None, visible=bool(hits.data)),
        }


def _evicted(evicted: EvictionResult, place: str) -> str:
    if not evicted.num_replicas:
        return "Nothing had to be evicted."
    summary = f"Evicted {count(evicted.num_replicas, 'passage')} ({size(evicted.size_bytes)}) from {place}"
    if not evicted.num_nodes:
        return f"{summary}. Another tier still has them."
    return f"{summary}. {count(evicted.num_nodes, 'passage')} will be recomputed when needed."


def _message(snapshot: CacheView, result: str = "") -> Markup:
    text = result or ("" if snapshot.is_complete else _MATCHING)
    return tag("p", text, class_="kv-message", role="status") if text else Markup("")
