"""The documents panel: add files and watch them being read, see what is there, delete."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from ui.backend import Backend, IngestProgress
from ui.coalesce import coalesce
from ui.events import LIBRARY, QUIET, Update, session_of
from ui.markup import Markup, join, tag
from ui.shelf import progress, shelf
from ui.stops import Stops
from ui.trouble import sentence

_KINDS = "PDF, DOCX, Markdown, HTML or text"
# Buttons inside our own HTML: a click becomes an event with what to do and to which document.
_ON_CLICK = """
element.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-act]');
    if (button) trigger('click', {act: button.dataset.act, id: button.dataset.id});
});
"""


class Documents:
    """The panel. What a session is about to delete is in its State; only the stop events are kept here."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.stops = Stops()

    def build(self) -> None:
        """Draw and connect the panel inside the open Blocks."""
        with gr.Column(elem_id="documents"):
            gr.HTML(join(tag("h2", "Documents"), tag("p", _KINDS, class_="kv-muted")), js_on_load=None)
            self._files = gr.File(
                label="Drop PDF, DOCX, Markdown, HTML or text files",
                show_label=False,
                file_count="multiple",
                height=104,
                buttons=[],
                elem_id="upload",
            )
            self._progress = gr.HTML(elem_id="progress", js_on_load=None)
            self._cancel = gr.Button("Cancel", size="sm", visible=False, elem_id="cancel-upload")
            self._trouble = gr.HTML(elem_id="documents-trouble", js_on_load=None)
            self.shelf = gr.HTML(elem_id="shelf", js_on_load=_ON_CLICK)
            self.doomed = gr.State("")
        outputs = [self._files, self._progress, self._cancel, self._trouble, self.shelf]
        added: dict[str, Any] = {"concurrency_id": LIBRARY, "concurrency_limit": 1}
        # Without preprocessing, each file keeps its original name; Gradio has checked by then that it was uploaded.
        self._files.upload(self.add, self._files, outputs, preprocess=False, **added, **QUIET)
        self._cancel.click(self.cancel, None, None, queue=False, **QUIET)
        clicked = [self.shelf, self.doomed, self._trouble]
        self.shelf.click(self.act, self.doomed, clicked, queue=False, **QUIET)

    def add(self, files: list[dict[str, Any]] | None, request: gr.Request) -> Iterator[Update]:
        """Add uploaded files one after the other; the copies that Gradio made are removed at the end."""
        session = session_of(request)
        stop = self.stops.start(session)
        uploads = [(Path(file["path"]), file.get("orig_name") or Path(file["path"]).name) for file in files or []]
        try:
            yield {self._files: None, self._cancel: gr.Button(visible=True), self._trouble: ""}
            view: Update = {}
            for state in coalesce(self._backend.ingest(uploads, stop), _milestone):
                view = {self._progress: progress(state), self.shelf: self.current()}
                yield view
            yield {**view, self._cancel: gr.Button(visible=False)}
        except Exception as error:  # noqa: BLE001  the page's border: every error becomes a sentence, bugs are logged
            yield {self._trouble: _block(error), self._cancel: gr.Button(visible=False)}
        finally:
            self.stops.finish(session, stop)
            for path, _ in uploads:
                with contextlib.suppress(OSError):
                    path.unlink()

    def cancel(self, request: gr.Request) -> None:
        """Stop adding what this session uploaded."""
        self.stops.stop(session_of(request))

    def act(self, doomed: str, event: gr.EventData) -> Update:
        """Follow a button of the list: ask before deleting, delete, keep, or clear what was computed."""
        act, document_id = str(event._data.get("act")), str(event._data.get("id"))
        trouble: Markup | str = ""
        try:
            if act == "confirm" and document_id == doomed:
                self._backend.delete(document_id)
            elif act == "clear":
                self._backend.clear()
        except Exception as error:  # noqa: BLE001  the page's border
            trouble = _block(error)
        doomed = document_id if act == "delete" else ""
        return {self.shelf: self.current(doomed), self.doomed: doomed, self._trouble: trouble}

    def current(self, doomed: str = "") -> Markup:
        """Return the list as it is now."""
        return shelf(self._backend.documents(), self._backend.kept(), doomed)


def _milestone(files: Iterable[IngestProgress]) -> tuple[tuple[str, str], ...]:
    return tuple((file.name, file.stage) for file in files)


def _block(error: Exception) -> Markup:
    return tag("p", sentence(error), class_="kv-trouble", role="alert", dir="auto")
