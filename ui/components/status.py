"""The status line in the sidebar, polled often until the engine is ready and rarely afterwards."""

import gradio as gr

from backend.interface.backend import Backend, Status
from backend.interface.errors import user_message
from ui.components.document_sidebar import DocumentSidebar
from ui.events import QUIET, Update
from ui.html import Markup, join, tag

_LOADING_INTERVAL_S = 1.5
_READY_INTERVAL_S = 10.0
Shown = tuple[str, tuple[str, ...]]  # the status line and a summary of the document list, as last sent


class StatusLine:
    """Refreshes itself and the sidebar's list of documents, which another tab or the first start may change."""

    def __init__(self, backend: Backend, documents: DocumentSidebar) -> None:
        self._backend = backend
        self._documents = documents

    def build(self) -> None:
        """Create the line inside the open Blocks."""
        self._line = gr.HTML(elem_id="status", js_on_load=None)
        self._timer = gr.Timer(_LOADING_INTERVAL_S)
        self._shown = gr.State(("", ()))

    def wire(self, page: gr.Blocks) -> None:
        """Connect the timer; call this after the list of documents is created."""
        inputs = [self._shown, self._documents.pending_delete]
        outputs = [self._line, self._timer, self._documents.document_list, self._shown]
        for event in (page.load, self._timer.tick):
            event(self.tick, inputs, outputs, queue=False, **QUIET)

    def tick(self, shown: Shown, pending_delete: str) -> Update:
        """Return what changed since `shown`; a list that waits for a confirmation is not redrawn."""
        status = self._status()
        line = render_status(status)
        documents = (
            str(status.ready),
            *map(str, self._backend.documents()),
            *map(str, self._backend.tier_usage()),
        )
        update: Update = {self._shown: (str(line), shown[1] if pending_delete else documents)}
        if line != shown[0]:
            interval_s = _READY_INTERVAL_S if status.ready else _LOADING_INTERVAL_S
            update |= {self._line: line, self._timer: gr.Timer(interval_s)}
        if not pending_delete and (documents != tuple(shown[1]) or not shown[0]):
            update[self._documents.document_list] = self._documents.current()
        return update

    def _status(self) -> Status:
        try:
            return self._backend.status()
        except Exception as error:  # noqa: BLE001  the UI's boundary
            return Status(ready=False, message=user_message(error), failed=True)


def render_status(status: Status) -> Markup:
    """Return the status as a line with a dot (steady, pulsing while loading, red on failure) and a progress bar."""
    look = "failed" if status.failed else "ready" if status.ready else "loading"
    dot = tag("span", class_="kv-dot", aria_hidden="true")
    message = f"Ready: {status.message}" if look == "ready" and status.progress is None else status.message
    line = tag("p", dot, tag("span", message, dir="auto"), class_=f"kv-status kv-{look}", role="status")
    if status.progress is None:
        return line
    return join(line, tag("progress", value=f"{status.progress:.2f}", class_="kv-loading-bar", aria_label="Loading"))
