"""The panel beside the page that shows a passage in its document, as its page or as text, with the quote marked."""

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from engine.errors import ModelNotReady
from ui.components.excerpt import find_quote, page_label, render_excerpt, render_page
from ui.events import INSTANT
from ui.html import Markup, join, tag

_AS_TEXT = tag("h3", "As the model reads it")


def build_source_panel(backend: Backend, tabs: gr.Tabs, *openers: gr.HTML) -> None:
    """Create the closed panel inside the open Blocks.

    It opens when a citation or a button of a passage in one of `openers` is clicked; leaving the page closes it.
    """

    def show(event: gr.EventData) -> Markup:
        chunk, rank, context = (str(event._data.get(name, "")) for name in ("id", "rank", "context"))
        try:
            excerpt = backend.library.excerpt(chunk)
            quote = find_quote(excerpt, context)
            location = tag("p", page_label(excerpt, quote), class_="kv-muted")
            has_pages = excerpt.chunk.page and backend.has_pages(excerpt.chunk.document_id)
            page = join(render_page(excerpt, quote), _AS_TEXT) if has_pages else None
            return _panel(rank, excerpt.chunk.document_name, location, page, render_excerpt(excerpt, quote))
        except Exception as error:  # noqa: BLE001  UI boundary: every error becomes a message, bugs are logged
            title = "Not available yet" if isinstance(error, ModelNotReady) else "No longer available"
            return _panel(rank, title, tag("p", user_message(error), class_="kv-warning"))

    panel = gr.HTML(elem_id="drawer", js_on_load="kvscopeAsk.connectDrawer(element, trigger);")
    for left in (panel.clear, tabs.change):
        left(lambda: "", None, panel, **INSTANT)
    for opener in openers:
        opener.select(show, None, panel, **INSTANT)


def _panel(rank: str, title: str, *parts: Markup | None) -> Markup:
    close = tag("button", "\u00d7", type="button", data_close=True, aria_label="Close", title="Close (Esc)")
    head = tag("header", tag("span", rank, class_="kv-rank"), tag("bdi", title, class_="kv-document"), close)
    return tag("aside", head, *parts, class_="kv-drawer", tabindex=-1, aria_label=f"Source {rank}")
