"""The side panel that a citation opens: the passage where it stands, on its page."""

from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from engine.errors import ModelNotReady
from ui.components import excerpt
from ui.events import QUIET, Update
from ui.html import Markup, tag

# What the answer quotes of the passage that is shown is brought into sight; the panel takes the focus, for Esc and
# screen readers. When it closes, the focus goes back to the citation that opened it, which may have been drawn anew,
# unless it has gone elsewhere.
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


class Drawer:
    """One panel for all citations of the page."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def build(self) -> None:
        """Draw the panel, still closed, inside the open Blocks."""
        self._panel = gr.HTML(elem_id="drawer", js_on_load=_ON_LOAD)
        self._panel.clear(lambda: "", None, self._panel, queue=False, **QUIET)

    def follow(self, cites: gr.HTML) -> None:
        """Open the passage whose citation is clicked there."""
        cites.select(self.show, None, self._panel, queue=False, **QUIET)

    def show(self, event: gr.EventData) -> Update:
        """Show the passage that was cited, or say why it cannot be shown."""
        told: dict[str, Any] = event._data
        chunk, rank, said = (str(told.get(name, "")) for name in ("id", "rank", "said"))
        try:
            found = self._backend.library.excerpt(chunk)
            quote = excerpt.backing(found, said)
            where, text = tag("p", excerpt.place(found, quote), class_="kv-muted"), excerpt.marked(found, quote)
            return {self._panel: _panel(rank, found.chunk.document_name, where, text)}
        except Exception as error:  # noqa: BLE001  the page's border: every error becomes a sentence, bugs are logged
            title = "Not yet" if isinstance(error, ModelNotReady) else "Not here any more"
            return {self._panel: _panel(rank, title, tag("p", user_message(error), class_="kv-warning"))}


def _panel(rank: str, title: str, *parts: Markup) -> Markup:
    close = tag("button", "\u00d7", type="button", data_close=True, aria_label="Close", title="Close (Esc)")
    number = tag("span", rank, class_="kv-rank") if rank else None
    head = tag("header", number, tag("bdi", title, class_="kv-document"), close)
    return tag("aside", head, *parts, class_="kv-drawer", tabindex=-1, aria_label=f"Source {rank}".strip())
