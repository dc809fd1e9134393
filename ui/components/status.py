"""The status line: what the engine is doing, asked often until it is ready and seldom after."""

import gradio as gr

from backend.interface.backend import Backend, Status
from backend.interface.errors import user_message
from ui.components.document_sidebar import Documents
from ui.events import QUIET, Update
from ui.html import Markup, join, tag

_EAGER_S, _CALM_S = 1.5, 10.0


class StatusLine:
    """Refreshes itself, and the list of documents with it, since another tab or the first start may add some."""

    def __init__(self, backend: Backend, documents: Documents) -> None:
        self._backend, self._documents = backend, documents

    def build(self) -> None:
        """Draw the line inside the open Blocks."""
        self._line = gr.HTML(elem_id="status", js_on_load=None)
        self._timer = gr.Timer(_EAGER_S)
        self._shown = gr.State(("", ()))

    def wire(self, page: gr.Blocks) -> None:
        """Connect the clock once the list of documents is drawn."""
        inputs = [self._shown, self._documents.doomed]
        outputs = [self._line, self._timer, self._documents.library, self._shown]
        for event in (page.load, self._timer.tick):
            event(self.tick, inputs, outputs, queue=False, **QUIET)

    def tick(self, shown: tuple[str, tuple[str, ...]], doomed: str) -> Update:
        """Return what changed since `shown`; a list that waits for a yes is left as it is."""
        status = self._status()
        now, listed = (
            line(status),
            (str(status.ready), *map(str, self._backend.documents()), *map(str, self._backend.tier_usage())),
        )
        update: Update = {self._shown: (str(now), shown[1] if doomed else listed)}
        if now != shown[0]:
            update |= {self._line: now, self._timer: gr.Timer(_CALM_S if status.ready else _EAGER_S)}
        if not doomed and (listed != tuple(shown[1]) or not shown[0]):
            update[self._documents.library] = self._documents.current()
        return update

    def _status(self) -> Status:
        try:
            return self._backend.status()
        except Exception as error:  # noqa: BLE001  the page's border
            return Status(ready=False, line=user_message(error), failed=True)


def line(status: Status) -> Markup:
    """Return the status as one line with a dot (still, breathing while loading, red if it failed) and a bar."""
    look = "failed" if status.failed else "ready" if status.ready else "loading"
    dot = tag("span", class_="kv-dot", aria_hidden="true")
    told = f"Ready: {status.line}" if look == "ready" and status.share is None else status.line
    said = tag("p", dot, tag("span", told, dir="auto"), class_=f"kv-status kv-{look}", role="status")
    if status.share is None:
        return said
    return join(said, tag("progress", value=f"{status.share:.2f}", class_="kv-loading-bar", aria_label="Loading"))
