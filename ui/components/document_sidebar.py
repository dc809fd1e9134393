"""The documents panel in the sidebar: add files with progress, list documents, delete them, clear the cache."""

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from ui.components.document_list import render_document_list
from ui.components.uploads import FORMATS, Uploads
from ui.events import QUIET, Update
from ui.html import Markup, error_box, join, tag

# Turns a click on a button inside our own HTML into an event with its action and document id.
_ON_CLICK = """
element.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-act]');
    if (button) trigger('click', {act: button.dataset.act, id: button.dataset.id});
});
"""


class DocumentSidebar:
    """The panel.

    document_list   the list, which other components follow
    pending_delete  State: id of the document whose deletion this session has to confirm, or ''
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.uploads = Uploads(backend, lambda: {self.document_list: self.current()})

    def build(self) -> None:
        """Create and connect the panel inside the open Blocks."""
        with gr.Column(elem_id="documents"):
            gr.HTML(join(tag("h2", "Documents"), tag("p", FORMATS, class_="kv-muted")), js_on_load=None)
            self.uploads.build(height=104)
            self._error = gr.HTML(elem_id="documents-error", elem_classes="kv-error-box", js_on_load=None)
            self.document_list = gr.HTML(elem_id="document-list", js_on_load=_ON_CLICK)
            self.pending_delete = gr.State("")
        self.uploads.wire([self.document_list])
        outputs = [self.document_list, self.pending_delete, self._error]
        self.document_list.click(self.act, self.pending_delete, outputs, queue=False, **QUIET)

    def act(self, pending_delete: str, event: gr.EventData) -> Update:
        """Handle a button of the list: ask before deleting, delete, cancel, or clear the cache."""
        act = str(event._data.get("act"))
        document_id = str(event._data.get("id"))
        error: Markup | str = ""
        try:
            if act == "confirm" and document_id == pending_delete:
                self._backend.delete(document_id)
            elif act == "clear":
                self._backend.clear()
        except Exception as exception:  # noqa: BLE001  the UI's boundary
            error = error_box(user_message(exception))
        pending_delete = document_id if act == "delete" else ""
        return {
            self.document_list: self.current(pending_delete),
            self.pending_delete: pending_delete,
            self._error: error,
        }

    def current(self, pending_delete: str = "") -> Markup:
        """Return the current list as HTML."""
        status = self._backend.status()
        loading = not status.ready and not status.failed
        return render_document_list(self._backend.documents(), self._backend.tier_usage(), pending_delete, loading)
