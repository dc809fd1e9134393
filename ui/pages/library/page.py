"""The Library page: adds, lists, previews, renames, re-indexes and deletes documents; further parts: search, cache."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from backend.interface.library import DocumentUsage, WatchedFolder
from ui.components.document_sidebar import DocumentSidebar
from ui.components.uploads import FORMATS, Uploads
from ui.events import INSTANT, QUIET, RUN_INGESTION, Update
from ui.html import Markup, error_box, join, tag
from ui.pages.ask.composer import Composer
from ui.pages.cache.part import Cache
from ui.pages.library import table
from ui.pages.library.view import AGES, COLUMNS, FILE_TYPES, PAGE_SIZE, View, existing_languages, filter_and_sort
from ui.pages.search import Search

_REFRESH_JS = "() => kvscopePress('#cache-buttons [data-act=refresh]', 4)"  # if the cache is the open part
_INTRO = f"Any number of {FORMATS} files."
_HERE = "They are processed on this machine and never leave it."
MAX_ADDRESS_CHARS = 2000
_ONE_LINE: dict[str, Any] = {"show_label": False, "container": False, "max_lines": 1}
# Events that redraw the table run one at a time, so that each starts from the view the previous one returned and a
# slow one cannot overwrite a newer table.
_SERIAL: dict[str, Any] = {"concurrency_id": "library list", "concurrency_limit": 1, **QUIET}


class Library:
    """The page; each session's `View` of the table is kept in its State `view`."""

    def __init__(
        self,
        backend: Backend,
        sidebar: DocumentSidebar,
        search: Search,
        watched: Callable[[], Sequence[WatchedFolder]],
        undo: Callable[[str], None],
    ) -> None:
        self._backend = backend
        self._watched = watched
        self._undo = undo
        self._sidebar = sidebar
        self._cache = Cache(backend)
        self._search = search

    def build(self, tab: gr.Tab) -> None:
        with gr.Column(elem_classes="kv-page"), gr.Tabs(elem_id="library-parts"):
            with gr.Tab("Documents", id="documents", elem_id="tab-documents") as documents_tab:
                self._build_documents(tab, documents_tab)
            with gr.Tab("Search", id="search", elem_id="tab-search"):
                self._search.build()
            with gr.Tab("Cache details", id="cache", elem_id="tab-cache") as cache_tab:
                self._cache.build(cache_tab)
        tab.select(None, None, None, js=_REFRESH_JS, **INSTANT)

    def _build_documents(self, *tabs: gr.Tab) -> None:
        self.view = gr.State(View())
        self._asked = gr.Textbox(visible="hidden")  # the question about the selected documents, for the browser
        with gr.Column(elem_id="library-page"):
            server = self._backend.outgoing_note
            intro = f"{_INTRO} {server or _HERE}"
            gr.HTML(join(tag("h2", "Add documents"), tag("p", intro, class_="kv-muted")), js_on_load=None)
            self.uploads = Uploads(self._backend, height=132, name="library-")
            with gr.Row(elem_id="library-page-row", visible=self._backend.accepts_web_pages, equal_height=False):
                self._address = gr.Textbox(
                    label="Address of a web page",
                    placeholder="https://… adds a web page",
                    max_length=MAX_ADDRESS_CHARS,
                    elem_id="library-address",
                    **_ONE_LINE,
                )
                add_page = gr.Button("Add page", size="sm", elem_id="library-add-page", min_width=110, scale=0)
            with gr.Row(elem_id="library-head", equal_height=False):
                self.summary = gr.HTML(elem_id="library-summary", js_on_load=None)
                self._filter = gr.Textbox(
                    label="Filter documents by name",
                    placeholder="Filter by name",
                    elem_id="library-filter",
                    **_ONE_LINE,
                )
            self.error = gr.HTML(elem_id="library-error", elem_classes="kv-error-box", js_on_load=None)
            self.table = gr.HTML(elem_id="library-list", js_on_load="window.kvLibrary?.table(element, trigger, watch);")
            self.poll = gr.Timer(1.0, active=False)  # runs while usage is being counted and after re-indexing
        drawn = [self.table, self.summary, self.poll]
        document_list = self._sidebar.document_list
        self.uploads.wire(document_list, self._sidebar.current)
        redrawn = [self.view, *drawn]
        for event in (*(tab.select for tab in tabs), self.poll.tick):
            event(self.refresh, self.view, redrawn, **_SERIAL)
        self.table.input(self.refresh, self.view, redrawn, trigger_mode="always_last", **_SERIAL)
        document_list.change(None, None, None, js="() => window.kvLibrary?.refresh()", **INSTANT)
        added = [self._address, document_list, *self.uploads.progress_outputs()]
        for event in (self._address.submit, add_page.click):
            event(self.add_page, self._address, added, **RUN_INGESTION)
        self._filter.change(self.filter, [self.view, self._filter], [self.view, *drawn], **_SERIAL)
        acted = [self._filter, self.view, self.error, document_list, *drawn]
        self.table.click(self.act, self.view, acted, trigger_mode="multiple", **_SERIAL)  # "once" would drop some
        outputs = [self.view, document_list, *self.uploads.progress_outputs(), *drawn]
        self.table.submit(self.reindex, self.view, outputs, **RUN_INGESTION)

    def link_to_ask(self, tabs: gr.Tabs, composer: Composer) -> None:
        """Let the button for the selected documents send a question about them to the Ask page and run it there."""
        box, asked = composer.question, self._asked

        def send(view: View) -> Update:
            selected = [document for document in self._backend.documents() if document.id in view.selected]
            question = table.question_about(selected)
            if not question:
                return {asked: ""}
            documents = composer.select([document.id for document in selected])
            shown: Update = {tabs: gr.Tabs(selected="ask"), composer.replaces_last: False, **documents}
            return {box: question, asked: question, **shown}

        outputs = [box, asked, tabs, composer.replaces_last, composer.picker.documents, composer.whole]
        sent = self.table.expand(send, self.view, outputs, **INSTANT)
        sent.then(None, asked, None, js="(asked) => { if (asked) kvscopePress('#ask'); }", **INSTANT)

    def refresh(self, view: View) -> Update:
        """Return the current table; while a name is being edited, the table is not redrawn."""
        is_naming = view.naming and bool(self._selected(view))
        return {self.poll: gr.Timer(active=False)} if view.renaming or is_naming else self._draw(view)

    def filter(self, view: View, words: str) -> Update:
        view = replace(view, filter=words, limit=PAGE_SIZE, renaming="", pending_delete=())
        return {self.view: view, **self._draw(view)}

    def add_page(self, address: str | None, request: gr.Request) -> Iterator[Update]:
        """Add the web page of an address, with the progress shown below the drop zone."""
        if not (address or "").strip():
            yield gr.skip()
            return
        yield {self._address: ""}
        url = str(address).strip()[:MAX_ADDRESS_CHARS]
        yield from self.uploads.follow(lambda cancel: self._backend.ingest_web_page(url, cancel), request)
        yield {self._sidebar.document_list: self._sidebar.current()}

    def act(self, view: View, event: gr.EventData) -> Update:
        """Handle a button or a checkbox of the table."""
        data = event._data
        action, target = str(data.get("act")), str(data.get("id"))
        try:
            view = self._run(view, action, target, data)
        except Exception as error:  # noqa: BLE001  the UI's boundary
            view = replace(view, renaming="", pending_delete=())
            return {self.view: view, self.error: error_box(user_message(error)), **self._draw(view)}
        update = {self.view: view, self.error: "", **self._draw(view)}
        if action == "gone":  # it shows all documents
            update[self._filter] = ""
        if action in ("save", "confirm", "join", "leave", "undo"):
            update[self._sidebar.document_list] = self._sidebar.current()
        return update

    def reindex(self, view: View, request: gr.Request, event: gr.EventData) -> Iterator[Update]:
        """Re-index one document, or all selected ones, with the progress shown below the drop zone."""
        target = str(event._data.get("id"))
        document_ids = (target,) if target else self._selected(view)
        view = replace(view, open="", in_context="", selected=(), naming=False)
        yield {self.view: view, **self._draw(view)}
        # The session's view may change from here on, so later redraws are left to the poll timer, which reads it.
        yield from self.uploads.follow(lambda cancel: self._backend.library.reindex(document_ids, cancel), request)
        yield {self._sidebar.document_list: self._sidebar.current(), self.poll: gr.Timer(active=True)}

    def _run(self, view: View, action: str, target: str, data: dict[str, Any]) -> View:
        library = self._backend.library
        if action == "open":
            is_open = view.open == target
            return replace(view, open="" if is_open else target, first=0, in_context="", renaming="", pending_delete=())
        if action == "page":
            return replace(view, first=max(0, int(target)), in_context="")
        if action == "place":
            return replace(view, in_context="" if view.in_context == target else target)
        if action == "sort" and target in COLUMNS:
            descending = not view.descending if target == view.order else target != "name"
            return replace(view, order=target, descending=descending)
        if action == "more":
            return replace(view, limit=view.limit + PAGE_SIZE)
        if action == "none":
            return replace(view, selected=(), pending_delete=(), naming=False)
        if action == "collection":
            return replace(view, collection="" if view.collection == target else target, limit=PAGE_SIZE)
        if action == "type" and target in ("", *FILE_TYPES):
            return replace(view, file_type=target, limit=PAGE_SIZE, renaming="", pending_delete=())
        if action == "language" and target in ("", *existing_languages(library.list_with_usage())):
            return replace(view, language=target, limit=PAGE_SIZE, renaming="", pending_delete=())
        if action == "age" and target in AGES:
            return replace(view, age=target, limit=PAGE_SIZE, renaming="", pending_delete=())
        if action == "name":
            return replace(view, naming=True, renaming="", pending_delete=())
        if action == "join":
            name = (target or str(data.get("name") or "")).strip()
            if not name:
                return view
            library.add_to_collection(self._selected(view), name)
            return replace(view, naming=False, selected=())
        if action == "leave":
            library.remove_from_collection(self._selected(view), target)
            return replace(view, selected=())
        if action == "undo":
            self._undo(target)
            return replace(view, renaming="", pending_delete=())
        if action == "gone":
            gone = {document for folder in self._watched() for document in folder.gone}
            return replace(view.unfiltered(), selected=tuple(gone), pending_delete=())
        if action in ("choose", "all"):
            listed = filter_and_sort(library.list_with_usage(), view)
            changed = {each.document.id for each in listed} if action == "all" else {target}
            others = tuple(document_id for document_id in view.selected if document_id not in changed)
            selected = (*others, *sorted(changed)) if data.get("on") else others
            return replace(view, selected=selected, naming=view.naming and bool(selected), pending_delete=())
        if action == "rename":
            return replace(view, renaming=target, naming=False, pending_delete=())
        if action == "save" and target == view.renaming:
            if name := str(data.get("name") or "").strip():
                library.rename(target, name)
            return replace(view, renaming="")
        if action == "delete":
            pending = (target,) if target else self._selected(view)
            freed_bytes = library.bytes_freed_by_delete(pending)
            return replace(view, pending_delete=pending, freed_bytes=freed_bytes, renaming="", naming=False)
        if action == "confirm":
            for document_id in view.pending_delete:
                self._backend.delete(document_id)
            remaining = tuple(each for each in view.selected if each not in view.pending_delete)
            return replace(view, pending_delete=(), selected=remaining)
        return replace(view, pending_delete=(), renaming="", naming=False)

    def _selected(self, view: View) -> tuple[str, ...]:
        """Return the ids of all selected documents in table order, including those hidden by the filters."""
        documents = filter_and_sort(self._backend.library.list_with_usage(), view.unfiltered())
        return tuple(each.document.id for each in documents if each.document.id in view.selected)

    def _draw(self, view: View) -> Update:
        """Return the table and its summary, and the view if a filter of it is gone.

        Poll again while cache usage is still being counted.
        """
        try:
            documents = self._backend.library.list_with_usage()
            drawn_view = view.without_unused(documents)
            status = self._backend.status()
            not_ready = "" if status.ready else f"{status.message}. Your documents appear here once the model is ready."
            counting = any(each.bytes_by_tier is None for each in documents)
            changed = {self.view: drawn_view} if drawn_view != view else {}
            return {
                **changed,
                self.table: join(
                    table.render_watched(self._watched()),
                    table.render_table(documents, drawn_view, self._preview(view, documents), not_ready),
                ),
                self.summary: table.render_summary(
                    documents, self._kv_token_bytes(), has_ratings=not self._backend.feedback.is_empty()
                ),
                self.poll: gr.Timer(active=counting),
            }
        except Exception as error:  # noqa: BLE001  the UI's boundary
            return {self.table: error_box(user_message(error)), self.poll: gr.Timer(active=False)}

    def _kv_token_bytes(self) -> int:
        """Return the bytes of KV per token of the main model; 0 if it is not loaded."""
        return next((model.kv_token_bytes for model in self._backend.models.loaded() if model.role == "primary"), 0)

    def _preview(self, view: View, documents: list[DocumentUsage]) -> Markup | None:
        total = next((each.document.num_chunks for each in documents if each.document.id == view.open), None)
        if total is None:
            return None
        library = self._backend.library
        passages = library.passages(view.open, view.first, table.PASSAGES_PER_PAGE)
        is_listed = any(passage.chunk.id == view.in_context for passage in passages)
        excerpt = library.excerpt(view.in_context) if is_listed else None
        return table.render_preview(passages, view.first, total, excerpt)
