"""The frame: documents and status at the side, a tab for each page. `build` draws it, `launch_options` serves it."""

from collections.abc import Mapping
from typing import Any, Protocol

import gradio as gr

from assets import ASSETS
from backend.interface.backend import Backend
from ui import gradio_api
from ui.components.document_sidebar import Documents
from ui.components.status import StatusLine
from ui.events import session_of
from ui.html import Markup, tag
from ui.pages.ask.page import Ask
from ui.pages.cache.page import Cache
from ui.pages.compare.page import Compare
from ui.pages.inspect.page import Inspect
from ui.pages.library.page import Library
from ui.pages.settings.page import Settings
from ui.theme import theme


class Page(Protocol):
    """One tab."""

    def build(self, tab: gr.Tab) -> None:
        """Draw the page inside its open tab and connect its events; `tab.select` tells when it is looked at."""
        ...


def build(backend: Backend, samples: Mapping[str, str] | None = None) -> gr.Blocks:
    """Return the pages, ready for `launch(**launch_options())`.

    samples  questions that an empty page offers, each with the name of the document that answers it
    """
    page = gr.Blocks(title="KVScope", fill_width=True, analytics_enabled=False, delete_cache=(3600, 86400))
    documents = Documents(backend)
    status = StatusLine(backend, documents)
    samples = samples or {}
    ask = Ask(backend, samples)
    inspect = Inspect(backend)
    compare = Compare(backend, samples)
    shelf = Library(backend, documents)
    settings = Settings(backend, backend.library)
    pages: list[tuple[str, str, Page]] = [
        ("Ask", "ask", ask),
        ("Inspect", "inspect", inspect),
        ("Compare", "compare", compare),
        ("Cache", "cache", Cache(backend)),
        ("Library", "library", shelf),
        ("Settings", "settings", settings),
    ]
    with page:
        gradio_api.build(backend)  # first, so that no event of a page takes one of its names
        with gr.Row(elem_id="shell", equal_height=False):
            with gr.Column(elem_id="side", min_width=0):
                gr.HTML(_brand(), elem_id="brand", js_on_load=None)
                status.build()
                documents.build()
            with gr.Column(elem_id="pages-column", min_width=0), gr.Tabs(elem_id="pages") as tabs:
                for label, name, each in pages:
                    with gr.Tab(label, id=name, elem_id=f"tab-{name}") as tab:
                        each.build(tab)
        status.wire(page)
        ask.wire(page, documents.library)
        inspect.asks.where.follow(documents.library)
        compare.follow(documents.library)
        ask.lead("expand", tabs, "inspect", inspect.asks, "#inspect-go")
        ask.lead("apply", tabs, "compare", compare.asks, "#compare-run")

        def left(request: gr.Request) -> None:
            for each in (ask, inspect, compare, settings):
                each.stops.leave(session_of(request))
            documents.cancel(request)
            shelf.cancel(request)

        page.unload(left)
    return page


def launch_options() -> dict[str, Any]:
    """Return what `launch` needs beside host and port: looks, the keyboard, and silence towards the outside."""
    others = (path for path in (ASSETS / "styles").glob("*.css") if path.name != "base.css")
    scripts = (ASSETS / "scripts").glob("*.js")
    return {
        "theme": theme(),
        "css_paths": [ASSETS / "styles" / "base.css", *sorted(others)],
        "head": f"<script>{''.join(path.read_text(encoding='utf-8') for path in sorted(scripts))}</script>",
        "footer_links": [],
        "run_history": False,
        "ssr_mode": False,
        "share": False,
        "enable_monitoring": False,
    }


def _brand() -> Markup:
    opens = {"data_opens": "kv-documents-open", "aria_expanded": "false", "aria_controls": "documents"}
    toggle = tag("button", "Documents", type="button", id="documents-toggle", **opens)
    return tag("header", tag("h1", "KVScope"), toggle)
