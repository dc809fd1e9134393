"""The section for passages: how documents are cut, and cutting again those that were cut otherwise."""

from collections.abc import Iterator, Sequence
from threading import Event
from typing import Any, Protocol

import gradio as gr

from backend.interface.errors import user_message
from backend.interface.library import IngestProgress
from backend.interface.models import ModelService
from ui.cancellation import SessionTasks
from ui.components.document_list import DISMISS, progress
from ui.events import LIBRARY, QUIET, Update, session_of
from ui.pages.settings import model_info as facts
from ui.pages.settings.apply import Changes
from ui.pages.settings.models_section import LOADING
from ui.pages.settings.section import Choices, section, stops_questions
from ui.throttle import coalesce

_ABOUT = (
    "Documents are cut into passages that end where sentences end. Long passages keep more together, short ones are "
    "found more exactly. CacheClip's paper takes 1000 tokens with 50 in common."
)


class Reindexer(Protocol):
    """What cuts documents anew; the Library page's desk is one."""

    def reindex(self, document_ids: Sequence[str], cancel: Event) -> Iterator[list[IngestProgress]]:
        """Cut, embed and prefill documents anew; each step yields the state of all of them."""
        ...


class PassagesSection:
    """Draws and connects the section. Only the stop events of re-indexing are kept here, by session.

    shelf  None leaves re-indexing out
    """

    def __init__(self, desk: ModelService, changes: Changes, shelf: Reindexer | None) -> None:
        self._desk, self._changes, self._shelf = desk, changes, shelf
        self.choices = Choices(desk.wanted(), desk.overridden())
        self.stops = SessionTasks()

    def build(self) -> None:
        """Draw the section inside the open Blocks."""
        with section("Passages", _ABOUT):
            with gr.Row(elem_classes="kv-fields"):
                says = "Most tokens of a passage; a token is about three quarters of an English word."
                self.choices.add(gr.Slider, "chunk_tokens", says, 16, 4096, step=1, label="Length", buttons=[])
                says = "Most tokens that neighbours share: whole sentences, or none."
                most = max(1024, self._desk.wanted().chunk_overlap)
                self.choices.add(gr.Slider, "chunk_overlap", says, 0, most, step=1, label="Overlap", buttons=[])
            self.cuts = gr.HTML(elem_id="passages-cuts", js_on_load=None)
            self.progress = gr.HTML(elem_id="passages-progress", js_on_load=DISMISS)
            with gr.Row(elem_classes="kv-actions"):
                self._apply = gr.Button("Apply", elem_id="passages-apply", min_width=100, scale=0)
                self.again = gr.Button("Re-index them", visible=False, elem_id="passages-again", min_width=140, scale=0)
                self._stop = gr.Button("Stop", variant="stop", visible=False, elem_id="passages-stop", scale=0)
                stops_questions()

    def wire(self, outputs: list[Any]) -> None:
        """Connect the buttons; a change may touch any of `outputs`."""
        self._apply.click(self.apply, self.choices.components(), outputs, **LOADING, **QUIET)
        shown = [self.cuts, self.progress, self.again, self._stop, self._apply]
        self.again.click(self.reindex, None, shown, concurrency_id=LIBRARY, concurrency_limit=1, **QUIET)
        self._stop.click(self.stop, None, None, queue=False, **QUIET)

    def refreshed(self) -> Update:
        """Return which documents are cut otherwise, and the button that cuts them again."""
        wanted, found = self._desk.wanted(), self._desk.stale_documents()
        again = bool(found) and self._shelf is not None
        return {
            self.cuts: facts.stale_documents(found, wanted.chunk_tokens, wanted.chunk_overlap),
            self.again: gr.Button(visible=again),
        }

    def apply(self, *values: Any) -> Iterator[Update]:
        """Cut documents so from now on."""
        yield from self._changes.make(self.choices.read(values))

    def reindex(self, request: gr.Request) -> Iterator[Update]:
        """Cut again every document that was cut otherwise, with its progress."""
        session = session_of(request)
        self.stops.start(session)
        if (stop := self.stops.take(session)) is None:  # it is at it already
            yield gr.skip()
            return
        busy: Update = {self.again: gr.Button(visible=False), self._stop: gr.Button(visible=True)}
        rest: Update = {self._stop: gr.Button(visible=False), self._apply: gr.Button(interactive=True)}
        try:
            yield {**busy, self.progress: "", self._apply: gr.Button(interactive=False)}
            ids = [document for cut in self._desk.stale_documents() for document in cut.documents]
            if self._shelf is not None:
                for files in coalesce(
                    self._shelf.reindex(ids, stop), lambda files: tuple(file.stage for file in files)
                ):
                    yield {self.progress: progress(files)}
            yield {**self.refreshed(), **rest}
        except Exception as error:  # noqa: BLE001  the page's border
            yield {**self.refreshed(), **rest, self.progress: facts.error(user_message(error))}
        finally:
            self.stops.finish(session, stop)

    def stop(self, request: gr.Request) -> None:
        """Stop this session's re-indexing; what is done stays done."""
        self.stops.stop(session_of(request))
