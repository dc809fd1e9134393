"""The page: three columns that fold into one on a phone. `build` draws it, `launch_options` says how to serve it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from ui import api, composer
from ui.ask import Ask
from ui.backend import Backend
from ui.documents import Documents
from ui.markup import Markup, tag
from ui.numbers import blank
from ui.results import Results
from ui.status import StatusLine
from ui.theme import theme

_ASSETS = Path(__file__).parent.parent / "assets"
_PROMISE = "Questions to your own documents, answered on this machine. What was read once is not read again."


def build(backend: Backend, samples: Sequence[str] = ()) -> gr.Blocks:
    """Return the page, ready for `launch(**launch_options())`.

    samples  questions that an empty page offers, one click each
    """
    page = gr.Blocks(title="KVScope", fill_width=True, analytics_enabled=False, delete_cache=(3600, 86400))
    documents = Documents(backend)
    status = StatusLine(backend, documents)
    with page:
        turns = gr.State([])
        with gr.Row(elem_id="shell", equal_height=False):
            with gr.Column(elem_id="side", min_width=0):
                gr.HTML(_brand(), elem_id="brand", js_on_load=None)
                status.build()
                documents.build()
            with gr.Column(elem_id="main", min_width=0):
                earlier = gr.HTML(elem_id="earlier", js_on_load=None)
                box = composer.build(backend.methods())
                with gr.Column(elem_id="welcome", visible=True) as welcome:
                    gr.HTML(_welcome(bool(samples)), js_on_load=None)
                    buttons = {text: gr.Button(text, size="sm", elem_classes="kv-sample") for text in samples}
                reply = gr.HTML(elem_id="reply", js_on_load=None)
                passages = gr.HTML(elem_id="passages", js_on_load=None)
            with gr.Column(elem_id="scope", min_width=0):
                gr.HTML(tag("h2", "What it took"), js_on_load=None)
                figures = gr.HTML(blank(), elem_id="numbers", js_on_load=None)
                figure = gr.Plot(visible=False, show_label=False, container=False, buttons=[], elem_id="waterfall")
                download = gr.DownloadButton("Download trace (JSON)", size="sm", visible="hidden", elem_id="download")
                history = gr.HTML(elem_id="history", js_on_load=None)
        results = Results(earlier, reply, passages, figures, figure, download, history)
        ask = Ask(backend, box, results, turns, welcome)
        ask.wire(buttons)
        status.wire(page)
        api.build(backend)

        def left(request: gr.Request) -> None:
            ask.stop(request)
            documents.cancel(request)

        page.unload(left)
    return page


def launch_options() -> dict[str, Any]:
    """Return what `launch` needs beside host and port: looks, the keyboard, and silence towards the outside."""
    return {
        "theme": theme(),
        "css_paths": [_ASSETS / "style.css"],
        "head": f"<script>{(_ASSETS / 'script.js').read_text(encoding='utf-8')}</script>",
        "footer_links": [],
        "run_history": False,
        "ssr_mode": False,
        "share": False,
        "enable_monitoring": False,
    }


def _brand() -> Markup:
    toggle = tag(
        "button", "Documents", type="button", id="documents-toggle", aria_expanded="false", aria_controls="documents"
    )
    return tag("header", tag("h1", "KVScope"), toggle)


def _welcome(offers: bool) -> Markup:
    promise = tag("p", _PROMISE, class_="kv-promise")
    return tag("div", promise, tag("p", "Try one of these:", class_="kv-muted") if offers else None)
