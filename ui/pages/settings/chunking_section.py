"""The Passages section: chunk size and overlap, and re-indexing of documents that were chunked differently."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from ui.cancellation import SessionTasks
from ui.components.document_list import DISMISS, render_progress
from ui.events import INGEST_QUEUE, QUIET, Update, session_of
from ui.html import error_box
from ui.pages.settings.apply import SettingsReload
from ui.pages.settings.model_info import render_stale_documents
from ui.pages.settings.models_section import LOADING
from ui.pages.settings.section import SettingInputs, apply_note, section
from ui.throttle import coalesce

_DESCRIPTION = (
    "Documents are split into passages (chunks) that end at sentence ends. Long passages keep more context together, "
    "short ones can be retrieved more precisely. CacheClip's paper uses 1000 tokens with an overlap of 50."
)
_SIZE = "Maximum tokens per passage (chunk size). A token is about three quarters of an English word."
_OVERLAP = "Maximum tokens shared by adjacent passages; only whole sentences are repeated."
_MAX_OVERLAP = 1024


class ChunkingSection:
    """The section.

    inputs    the settings
    stale     which documents were chunked with other settings
    progress  of re-indexing those documents
    tasks     running re-indexing by session
    """

    def __init__(self, backend: Backend, reload: SettingsReload) -> None:
        self._backend = backend
        self._models = backend.models
        self._reload = reload
        self.inputs = SettingInputs(self._models.current(), self._models.overrides())
        self.tasks = SessionTasks()

    def build(self) -> None:
        """Create the section inside the open Blocks."""
        add = self.inputs.add
        with section("Passages", _DESCRIPTION):
            with gr.Row(elem_classes="kv-fields"):
                add(gr.Slider, "chunk_size", _SIZE, 16, 4096, step=1, label="Passage length", buttons=[])
                max_overlap = max(_MAX_OVERLAP, self._models.current().chunk_overlap)
                add(gr.Slider, "chunk_overlap", _OVERLAP, 0, max_overlap, step=1, label="Overlap", buttons=[])
            self.stale = gr.HTML(elem_id="passages-stale", js_on_load=None)
            self.progress = gr.HTML(elem_id="passages-progress", js_on_load=DISMISS)
            with gr.Row(elem_classes="kv-actions"):
                self._apply = gr.Button("Apply", elem_id="passages-apply", min_width=100, scale=0)
                self.reindex_button = gr.Button(
                    "Re-index documents", visible=False, elem_id="passages-reindex", min_width=140, scale=0
                )
                self._stop = gr.Button("Stop", variant="stop", visible=False, elem_id="passages-stop", scale=0)
                apply_note()

    def wire(self, outputs: list[Any]) -> None:
        """Connect the buttons; a reload may update any of `outputs`."""
        self._apply.click(self.apply, self.inputs.components(), outputs, **LOADING, **QUIET)
        shown = [self.stale, self.progress, self.reindex_button, self._stop, self._apply]
        self.reindex_button.click(self.reindex, None, shown, **INGEST_QUEUE, **QUIET)
        self._stop.click(self.stop, None, None, queue=False, **QUIET)

    def updates(self) -> Update:
        """Return the documents that were chunked with other settings, and the button that re-indexes them."""
        settings = self._models.current()
        stale = self._models.stale_documents()
        return {
            self.stale: render_stale_documents(stale, settings.chunk_size, settings.chunk_overlap),
            self.reindex_button: gr.Button(visible=bool(stale)),
        }

    def apply(self, *values: Any) -> Iterator[Update]:
        """Apply the settings of this section to documents added from now on."""
        yield from self._reload.apply(self.inputs.read(values))

    def reindex(self, request: gr.Request) -> Iterator[Update]:
        """Re-index all documents that were chunked with other settings, showing the progress."""
        session = session_of(request)
        self.tasks.start(session)
        if (cancel := self.tasks.claim(session)) is None:  # this session is re-indexing already
            yield gr.skip()
            return
        idle: Update = {self._stop: gr.Button(visible=False), self._apply: gr.Button(interactive=True)}
        try:
            yield {
                self.reindex_button: gr.Button(visible=False),
                self._stop: gr.Button(visible=True),
                self._apply: gr.Button(interactive=False),
                self.progress: "",
            }
            document_ids = [each for stale in self._models.stale_documents() for each in stale.document_ids]
            states = self._backend.library.reindex(document_ids, cancel)
            for files in coalesce(states, lambda files: tuple(file.stage for file in files)):
                yield {self.progress: render_progress(files)}
            yield {**self.updates(), **idle}
        except Exception as error:  # noqa: BLE001  the UI's boundary
            yield {**self.updates(), **idle, self.progress: error_box(user_message(error))}
        finally:
            self.tasks.finish(session, cancel)

    def stop(self, request: gr.Request) -> None:
        """Cancel this session's re-indexing; documents that are finished stay re-indexed."""
        self.tasks.stop(session_of(request))
