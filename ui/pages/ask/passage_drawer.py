"""The side panel that a citation opens: the passage in its surrounding text."""

from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from engine.errors import ModelNotReady
from ui.components.excerpt import find_quote, page_label, render_excerpt
from ui.events import QUIET, Update
from ui.html import Markup, tag

# Scrolls to the quote and focuses the panel, for the Esc key and screen readers. Closing returns the focus to the
# citation that opened the panel (possibly re-rendered since), unless the focus has moved elsewhere.
_ON_LOAD = """
let opener = null;
document.addEventListener('click', (event) => { opener = event.target.closest?.('.kv-cite') ?? opener; });
const citation = () => {
    const {id, rank} = opener.dataset;
    const again = `.kv-cite[data-id="${CSS.escape(id)}"][data-rank="${CSS.escape(rank)}"]`;
    return opener.isConnected ? opener : document.querySelector(again);
};
element.addEventListener('click', (event) => {
    if (event.target.closest('[data-close]')) trigger('clear');
});
new MutationObserver(() => {
    const panel = element.querySelector('aside');
    if (!panel && opener && document.activeElement === document.body) citation()?.focus();
    panel?.focus({preventScroll: true});
    (element.querySelector('.kv-quoted') ?? element.querySelector('mark'))?.scrollIntoView({block: 'center'});
}).observe(element, {childList: true, characterData: true, subtree: true});
"""


class PassageDrawer:
    """One panel for all citations of the page."""

    def __init__(self, backend: Backend) -> None:
        """Create the closed panel inside the open Blocks."""
        self._backend = backend
        self._panel = gr.HTML(elem_id="drawer", js_on_load=_ON_LOAD)
        self._panel.clear(lambda: "", None, self._panel, queue=False, **QUIET)

    def follow(self, citations: gr.HTML) -> None:
        """Open the panel when a citation in that component is clicked."""
        citations.select(self.show, None, self._panel, queue=False, **QUIET)

    def show(self, event: gr.EventData) -> Update:
        """Show the cited passage, or an error message if it is not available."""
        data: dict[str, Any] = event._data
        chunk, rank, context = (str(data.get(name, "")) for name in ("id", "rank", "context"))
        try:
            excerpt = self._backend.library.excerpt(chunk)
            quote = find_quote(excerpt, context)
            location = tag("p", page_label(excerpt, quote), class_="kv-muted")
            return {self._panel: _panel(rank, excerpt.chunk.document_name, location, render_excerpt(excerpt, quote))}
        except Exception as error:  # noqa: BLE001  UI boundary: every error becomes a message, bugs are logged
            title = "Not available yet" if isinstance(error, ModelNotReady) else "No longer available"
            return {self._panel: _panel(rank, title, tag("p", user_message(error), class_="kv-warning"))}


def _panel(rank: str, title: str, *parts: Markup) -> Markup:
    close = tag("button", "\u00d7", type="button", data_close=True, aria_label="Close", title="Close (Esc)")
    number = tag("span", rank, class_="kv-rank") if rank else None
    head = tag("header", number, tag("bdi", title, class_="kv-document"), close)
    return tag("aside", head, *parts, class_="kv-drawer", tabindex=-1, aria_label=f"Source {rank}".strip())
