"""The documents panel at the side: add files and watch them being read, see what is there, delete."""

import gradio as gr

from backend.interface.backend import Backend
from ui.components.document_list import shelf
from ui.components.uploads import KINDS, Uploads, trouble
from ui.events import QUIET, Update
from ui.html import Markup, join, tag

# Buttons inside our own HTML: a click becomes an event with what to do and to which document.
_ON_CLICK = """
element.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-act]');
    if (button) trigger('click', {act: button.dataset.act, id: button.dataset.id});
});
"""


class Documents:
    """The panel. What a session is about to delete is in its State."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.uploads = Uploads(backend, lambda: {self.library: self.current()})

    def build(self) -> None:
        """Draw and connect the panel inside the open Blocks."""
        with gr.Column(elem_id="documents"):
            gr.HTML(join(tag("h2", "Documents"), tag("p", KINDS, class_="kv-muted")), js_on_load=None)
            self.uploads.build(height=104)
            self._trouble = gr.HTML(elem_id="documents-trouble", elem_classes="kv-trouble-box", js_on_load=None)
            self.library = gr.HTML(elem_id="shelf", js_on_load=_ON_CLICK)
            self.doomed = gr.State("")
        self.uploads.wire([self.library])
        clicked = [self.library, self.doomed, self._trouble]
        self.library.click(self.act, self.doomed, clicked, queue=False, **QUIET)

    def cancel(self, request: gr.Request) -> None:
        """Stop adding what this session uploaded."""
        self.uploads.cancel(request)

    def act(self, doomed: str, event: gr.EventData) -> Update:
        """Follow a button of the list: ask before deleting, delete, keep, or clear what was computed."""
        act, document_id = str(event._data.get("act")), str(event._data.get("id"))
        said: Markup | str = ""
        try:
            if act == "confirm" and document_id == doomed:
                self._backend.delete(document_id)
            elif act == "clear":
                self._backend.clear()
        except Exception as error:  # noqa: BLE001  the page's border
            said = trouble(error)
        doomed = document_id if act == "delete" else ""
        return {self.library: self.current(doomed), self.doomed: doomed, self._trouble: said}

    def current(self, doomed: str = "") -> Markup:
        """Return the list as it is now."""
        status = self._backend.status()
        opening = not status.ready and not status.failed
        return shelf(self._backend.documents(), self._backend.tier_usage(), doomed, opening)
