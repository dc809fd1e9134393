"""The sidebar: status line, and the documents, which can be added, deleted and cleared from the cache."""

from collections.abc import Iterable, Sequence

import gradio as gr

from backend.interface.backend import Backend, Status, TierUsage
from backend.interface.errors import user_message
from store.types import Document
from ui.components.tiers import TIERS
from ui.components.uploads import FORMATS, Uploads
from ui.events import INSTANT, Listeners, Update
from ui.format import count, day, size
from ui.html import Markup, button, error_box, join, tag

_EMPTY = "No documents yet. Drop files on the box above or click it to choose some, then ask about them."
_LOADING = "Your documents appear here once KVScope is ready."
_USAGE = "Keys and values (KV) computed for your passages. After clearing, KVScope recomputes them when needed."
_CONNECT_LIST = "kvscopeDocuments.connectList(element, trigger, watch);"
_LOADING_INTERVAL_S = 1.5
_READY_INTERVAL_S = 10.0


class DocumentSidebar:
    """Polls the backend, because another tab or the first start may change the documents."""

    def __init__(self, backend: Backend) -> None:
        """Create and connect the components inside the open Blocks."""
        self._backend = backend
        self._status = gr.HTML(elem_id="status", js_on_load=None)
        self._timer = gr.Timer(_LOADING_INTERVAL_S)
        self._shown = gr.State(("", ""))  # the status line and the list as last sent
        with gr.Column(elem_id="documents"):
            gr.HTML(join(tag("h2", "Documents"), tag("p", FORMATS, class_="kv-muted")), js_on_load=None)
            self.uploads = Uploads(backend, height=104)
            self._error = gr.HTML(elem_id="documents-error", elem_classes="kv-error-box", js_on_load=None)
            self.document_list = gr.HTML(elem_id="document-list", js_on_load=_CONNECT_LIST)
            self._pending_delete = gr.State("")  # id of the document whose deletion has to be confirmed, or ''
        self.uploads.wire(self.document_list, self.current)
        acted = [self.document_list, self._pending_delete, self._error]
        self.document_list.click(self.act, self._pending_delete, acted, **INSTANT)
        self._polled = [self._shown, self._pending_delete]
        self._drawn = [self._status, self._timer, self.document_list, self._shown]
        self._timer.tick(self.tick, self._polled, self._drawn, **INSTANT)

    def follow(self, page_loaded: Listeners) -> None:
        """Show the status and the documents when the page is loaded."""
        page_loaded.add(self.tick, self._polled, self._drawn)

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
        shown = self.current(pending_delete)
        return {self.document_list: shown, self._pending_delete: pending_delete, self._error: error}

    def current(self, pending_delete: str = "") -> Markup:
        """Return the current list as HTML."""
        status = self._backend.status()
        loading = not status.ready and not status.failed
        documents = render_document_list(self._backend.documents(), self._backend.tier_usage(), pending_delete, loading)
        notices = [
            tag("p", notice, class_="kv-warning", role="status", dir="auto") for notice in self._backend.notices()
        ]
        return join(*notices, documents)

    def tick(self, shown: tuple[str, str], pending_delete: str) -> Update:
        """Return what changed since `shown`; a list that waits for a confirmation is not redrawn."""
        status = self._backend.status()
        last_line, last_documents = shown
        line = str(render_status(status))
        documents = last_documents if pending_delete else str(self.current())
        update: Update = {self._shown: (line, documents)}
        if line != last_line:
            interval_s = _READY_INTERVAL_S if status.ready else _LOADING_INTERVAL_S
            update |= {self._status: line, self._timer: gr.Timer(interval_s)}
        if documents != last_documents:
            update[self.document_list] = documents
        return update


def render_status(status: Status) -> Markup:
    """Return the status as a line with a dot (steady, pulsing while loading, red on failure) and a progress bar."""
    look = "failed" if status.failed else "ready" if status.ready else "loading"
    dot = tag("span", class_="kv-dot", aria_hidden="true")
    message = f"Ready: {status.message}" if look == "ready" and status.progress is None else status.message
    line = tag("p", dot, tag("span", message, dir="auto"), class_=f"kv-status kv-{look}", role="status")
    if status.progress is None:
        return line
    return join(line, tag("progress", value=f"{status.progress:.2f}", class_="kv-loading-bar", aria_label="Loading"))


def render_document_list(
    documents: Iterable[Document], usage: Sequence[TierUsage] = (), pending_delete: str = "", loading: bool = False
) -> Markup:
    """Return the documents and their cache usage; the deletion of `pending_delete` (an id) has to be confirmed."""
    rows = [_document_row(document, document.id == pending_delete) for document in documents]
    if not rows:
        return tag("p", _LOADING if loading else _EMPTY, class_="kv-muted kv-empty")
    return join(tag("ul", *rows, class_="kv-document-list", aria_label="Documents"), _usage_line(usage))


def _usage_line(usage: Sequence[TierUsage]) -> Markup | None:
    """Return the cache size by tier with a button that clears it; None if the cache is empty."""
    sizes = [f"{size(tier.size_bytes)} {TIERS[tier.tier].location}" for tier in usage if tier.size_bytes]
    if not sizes:
        return None
    total = tag("small", f"Cache: {', '.join(sizes)}", title=_USAGE)
    return tag("div", total, button("clear", "", "Clear", title=_USAGE), class_="kv-document-list kv-kept")


def _document_row(document: Document, pending_delete: bool) -> Markup:
    name = tag("bdi", document.name, class_="kv-clip", title=document.name)
    if pending_delete:
        confirm = button("confirm", document.id, "Delete", class_="kv-danger")
        buttons = tag("div", confirm, button("keep", document.id, "Cancel"))
        question = tag("p", "Delete ", name, " and everything computed from it?")
        return tag("li", question, buttons, class_="kv-confirm-delete")
    pages = None if document.num_pages is None else count(document.num_pages, "page")
    passages = count(document.num_chunks, "passage")
    facts = (size(document.size_bytes), pages, passages, day(document.added_at))
    shown = [tag("span", fact) for fact in facts if fact] + [
        tag("span", name, translate="no") for name in document.collections
    ]
    label = {"title": "Delete", "aria_label": f"Delete {document.name}"}
    return tag(
        "li",
        tag("div", name, tag("small", *shown), class_="kv-facts"),
        button("delete", document.id, "\u00d7", class_="kv-remove", **label),
    )
