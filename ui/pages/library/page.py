"""The Library page: every document with its facts and warnings; add, look into, rename, re-index, delete."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.library import DocumentUsage
from ui.components.document_sidebar import Documents
from ui.components.uploads import KINDS, Uploads, trouble
from ui.events import LIBRARY, QUIET, Update
from ui.html import Markup, join, tag
from ui.pages.library.preview import AT_ONCE as PASSAGES
from ui.pages.library.preview import Preview
from ui.pages.library.table import AT_ONCE, COLUMNS, View, arranged, listing, summary

_STILL_COUNTING_S = 1.0
# What draws the list waits for what draws it already: each begins with what the one before it left, none is lost, and
# a slow one does not put an older list over a newer one.
_IN_TURN: dict[str, Any] = {"concurrency_id": "library list", "concurrency_limit": 1, **QUIET}
# One handler for all buttons and boxes of the list. After it is drawn anew, the focus goes where it was, or to what
# asks for it; a name that is being typed is sent with Enter and dropped with Escape.
_ON_LOAD = """
let last = null;
const send = (target, extra) => {
    const {act, id} = target.dataset;
    last = `[data-act="${act}"][data-id="${CSS.escape(id)}"]`;
    const name = element.querySelector('input[data-act=save]')?.value;
    trigger(act === 'reindex' ? 'submit' : 'click', {act, id, name, ...extra});
};
element.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-act]');
    if (button) send(button);
});
element.addEventListener('change', (event) => {
    if (event.target.matches('input[type=checkbox]')) send(event.target, {on: event.target.checked});
});
element.addEventListener('keydown', (event) => {
    if (!event.target.matches('input[data-act=save]')) return;
    if (event.key === 'Enter') send(event.target);
    if (event.key === 'Escape') { event.stopPropagation(); trigger('click', {act: 'keep', id: ''}); }
});
watch('value', () => {
    const wanted = element.querySelector('[data-focus]') || (last && element.querySelector(last));
    if (wanted && (wanted.matches('[data-focus]') || document.activeElement === document.body)) {
        wanted.focus({preventScroll: true});
        if (wanted.matches('input[type=text]')) wanted.select();
    }
    last = null;
    // A box that was clicked does not follow its attribute any more.
    for (const box of element.querySelectorAll('input[type=checkbox]')) box.checked = box.hasAttribute('checked');
    for (const mark of element.querySelectorAll('.kv-excerpt mark')) {
        const box = mark.closest('.kv-excerpt');
        box.scrollTop += mark.getBoundingClientRect().top - box.getBoundingClientRect().top - 48;
    }
});
"""


class Library:
    """The page. What a session sees of the list is in its State; documents are everybody's.

    documents  the panel at the side: whatever changes its list draws this one anew
    """

    def __init__(self, backend: Backend, documents: Documents) -> None:
        self._backend, self._documents = backend, documents
        self.uploads = Uploads(backend, lambda: {documents.library: documents.current()}, name="library-")

    def build(self, tab: gr.Tab) -> None:
        """Draw and connect the page inside its open tab."""
        self._view = gr.State(View())
        with gr.Column(elem_id="library-page", elem_classes="kv-page"):
            gr.HTML(_invitation(), js_on_load=None)
            self.uploads.build(height=132)
            with gr.Row(elem_id="library-head", equal_height=False):
                self._summary = gr.HTML(elem_id="library-summary", js_on_load=None)
                self._filter = gr.Textbox(
                    label="Filter documents by name",
                    placeholder="Filter by name",
                    show_label=False,
                    container=False,
                    max_lines=1,
                    elem_id="library-filter",
                )
            self._trouble = gr.HTML(elem_id="library-trouble", elem_classes="kv-trouble-box", js_on_load=None)
            self._list = gr.HTML(elem_id="library-list", js_on_load=_ON_LOAD)
            self._clock = gr.Timer(_STILL_COUNTING_S, active=False)
        drawn = [self._list, self._summary, self._clock]
        shelf = self._documents.library
        self.uploads.wire([shelf])
        for event in (tab.select, shelf.change, self._clock.tick):
            event(self.refresh, self._view, drawn, **_IN_TURN)
        self._filter.change(self.narrow, [self._view, self._filter], [self._view, *drawn], **_IN_TURN)
        acted = [self._view, self._trouble, shelf, *drawn]
        self._list.click(self.act, self._view, acted, **_IN_TURN)
        again = [self._view, shelf, *self.uploads.shown(), *drawn]
        self._list.submit(self.reindex, self._view, again, concurrency_id=LIBRARY, concurrency_limit=1, **QUIET)

    def cancel(self, request: gr.Request) -> None:
        """Stop what this session has under way here."""
        self.uploads.cancel(request)

    def refresh(self, view: View) -> Update:
        """Draw the list as it is now; a name that is being typed is left alone."""
        return {self._clock: gr.Timer(active=False)} if view.renaming else self._drawn(view)

    def narrow(self, view: View, words: str) -> Update:
        """Show only documents whose names hold these words."""
        view = replace(view, filter=words, limit=AT_ONCE, renaming="", doomed=())
        return {self._view: view, **self._drawn(view)}

    def act(self, view: View, event: gr.EventData) -> Update:
        """Follow a button or a box of the list."""
        data = event._data
        act, name = str(data.get("act")), str(data.get("id"))
        try:
            view = self._after(view, act, name, data)
        except Exception as error:  # noqa: BLE001  the page's border
            view = replace(view, renaming="", doomed=())
            return {self._view: view, self._trouble: trouble(error), **self._drawn(view)}
        update = {self._view: view, self._trouble: "", **self._drawn(view)}
        if act in ("save", "confirm"):
            update[self._documents.library] = self._documents.current()
        return update

    def reindex(self, view: View, request: gr.Request, event: gr.EventData) -> Iterator[Update]:
        """Re-index one document, or all that are chosen, with progress where uploads have theirs."""
        name = str(event._data.get("id"))
        wanted = (name,) if name else self._chosen(view)
        view = replace(view, open="", placed="", chosen=())
        yield {self._view: view, **self._drawn(view)}
        # From here on the list is drawn from what the person sees by then: the clock asks for it.
        yield from self.uploads.follow(lambda cancel: self._backend.library.reindex(wanted, cancel), request)
        yield {self._documents.library: self._documents.current(), self._clock: gr.Timer(active=True)}

    def _after(self, view: View, act: str, name: str, data: dict[str, Any]) -> View:
        """Return the view after a click, with what it asked for done."""
        desk = self._backend.library
        if act == "open":
            return replace(view, open="" if view.open == name else name, first=0, placed="", renaming="", doomed=())
        if act == "page":
            return replace(view, first=max(0, int(name)), placed="")
        if act == "place":
            return replace(view, placed="" if view.placed == name else name)
        if act == "sort" and name in COLUMNS:
            descending = not view.descending if name == view.order else name != "name"
            return replace(view, order=name, descending=descending)
        if act == "more":
            return replace(view, limit=view.limit + AT_ONCE)
        if act in ("choose", "all", "none"):
            shown = {held.document.id for held in self._arranged(view)} if act == "all" else {name}
            others = tuple(each for each in view.chosen if each not in shown)
            chosen = (*others, *sorted(shown)) if data.get("on") else others
            return replace(view, chosen=() if act == "none" else chosen, doomed=())
        if act == "rename":
            return replace(view, renaming=name, doomed=())
        if act == "save" and name == view.renaming:
            if typed := str(data.get("name") or "").strip():
                desk.rename(name, typed)
            return replace(view, renaming="")
        if act == "delete":
            doomed = (name,) if name else self._chosen(view)
            return replace(view, doomed=doomed, freed=desk.bytes_freed_by_delete(doomed), renaming="")
        if act == "confirm":
            for doomed_id in view.doomed:
                self._backend.delete(doomed_id)
            return replace(view, doomed=(), chosen=tuple(each for each in view.chosen if each not in view.doomed))
        return replace(view, doomed=(), renaming="")

    def _arranged(self, view: View) -> list[DocumentUsage]:
        return arranged(self._backend.library.list_with_usage(), view)

    def _chosen(self, view: View) -> tuple[str, ...]:
        """Return the ids of all that are chosen, whether the filter shows them or not, in the list's order."""
        every = self._arranged(replace(view, filter=""))
        return tuple(held.document.id for held in every if held.document.id in view.chosen)

    def _drawn(self, view: View) -> Update:
        """Return the list and its summary; while something is still being counted, the clock asks again."""
        try:
            holdings, status = self._backend.library.list_with_usage(), self._backend.status()
            waiting = "" if status.ready else f"{status.line}. Your documents show here once the model is ready."
            drawn = listing(holdings, view, self._preview(view, holdings), waiting)
            counting = any(held.tiers is None for held in holdings)
            return {self._list: drawn, self._summary: summary(holdings), self._clock: gr.Timer(active=counting)}
        except Exception as error:  # noqa: BLE001  the page's border
            return {self._list: trouble(error), self._clock: gr.Timer(active=False)}

    def _preview(self, view: View, holdings: list[DocumentUsage]) -> Preview | None:
        total = next((held.document.chunks for held in holdings if held.document.id == view.open), None)
        if total is None:
            return None
        desk = self._backend.library
        passages = desk.passages(view.open, view.first, PASSAGES)
        placed = view.placed if any(passage.chunk.id == view.placed for passage in passages) else ""
        return Preview(passages, view.first, total, desk.excerpt(placed) if placed else None)


def _invitation() -> Markup:
    said = f"Any number of {KINDS} files. They are read on this machine and stay on it."
    return join(tag("h2", "Add documents"), tag("p", said, class_="kv-muted"))
