"""A drop zone: adds files one after the other, shows the steps of each, and lets each be cancelled separately."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Event, Lock
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from backend.interface.library import IngestProgress
from ui.components.document_list import DISMISS, render_progress
from ui.events import INGEST_QUEUE, QUIET, Update, session_of
from ui.html import error_box
from ui.throttle import coalesce

FORMATS = "PDF, DOCX, Markdown, HTML or text"
_POLL_S = 0.2
_CANCELLED = "Cancelled before processing started."
# The list is redrawn many times a second, so a click might never complete: react to pointerdown. A click with detail 0
# comes from the keyboard.
_ON_PRESS = (
    """
const press = (event) => {
    const button = event.target.closest('button[data-act=cancel]');
    if (button && (event.type !== 'click' || event.detail === 0)) trigger('click', {place: button.dataset.id});
};
element.addEventListener('pointerdown', press);
element.addEventListener('click', press);
"""
    + DISMISS
)


class Uploads:
    """The drop zone and the progress of its files.

    drop_zone    the file input
    progress     HTML with one line per file
    after        returns updates of other components after each progress step
    name         prefix of the element ids; empty in the sidebar
    """

    def __init__(self, backend: Backend, after: Callable[[], Update], name: str = "") -> None:
        self._backend = backend
        self._after = after
        self._name = name
        self._lock = Lock()
        self._running: dict[str, list[Event]] = {}  # session -> cancel event of each file

    def build(self, height: int) -> None:
        """Create the zone inside the open Blocks."""
        self.drop_zone = gr.File(
            label=f"Drop {FORMATS} files",
            show_label=False,
            file_count="multiple",
            height=height,
            buttons=[],
            elem_id=f"{self._name}upload",
            elem_classes="kv-upload",
        )
        self.progress = gr.HTML(elem_id=f"{self._name}progress", elem_classes="kv-progress", js_on_load=_ON_PRESS)
        self._cancel = gr.Button("Cancel", size="sm", visible=False, elem_id=f"cancel-{self._name}upload")
        self._error = gr.HTML(elem_id=f"{self._name}upload-error", elem_classes="kv-error-box", js_on_load=None)

    def wire(self, others: Iterable[Any]) -> None:
        """Connect the zone; `others` are the components that `after` updates."""
        outputs = [self.drop_zone, *self.progress_outputs(), *others]
        # preprocess=False keeps each file's original name; Gradio has already checked that the file is an upload.
        self.drop_zone.upload(self.add, self.drop_zone, outputs, preprocess=False, **INGEST_QUEUE, **QUIET)
        self._cancel.click(self.cancel, None, None, queue=False, **QUIET)
        self.progress.click(self.cancel_one, None, None, queue=False, **QUIET)

    def progress_outputs(self) -> list[Any]:
        """Return the components that `follow` updates."""
        return [self.progress, self._cancel, self._error]

    def add(self, files: list[dict[str, Any]] | None, request: gr.Request) -> Iterator[Update]:
        """Add uploaded files one after the other, then remove Gradio's copies of them."""
        uploads = [(Path(file["path"]), file.get("orig_name") or Path(file["path"]).name) for file in files or []]
        cancels = [Event() for _ in uploads]
        try:
            yield {self.drop_zone: None}
            yield from self._run(session_of(request), cancels, self._ingest(uploads, cancels))
        finally:
            for path, _ in uploads:
                with contextlib.suppress(OSError):
                    path.unlink()

    def follow(self, start: Callable[[Event], Iterator[list[IngestProgress]]], request: gr.Request) -> Iterator[Update]:
        """Show the progress of other work on documents; `start` is called with the event that cancels it."""
        cancel = Event()
        yield from self._run(session_of(request), [cancel], start(cancel))

    def cancel(self, request: gr.Request) -> None:
        """Cancel all files of this session."""
        for event in self.running(session_of(request)):
            event.set()

    def cancel_one(self, request: gr.Request, event: gr.EventData) -> None:
        """Cancel one file of this session; the following ones continue."""
        index = str(event._data.get("place"))
        cancels = self.running(session_of(request))
        if index.isdecimal() and int(index) < len(cancels):
            cancels[int(index)].set()

    def running(self, session: str) -> list[Event]:
        """Return the cancel events of the session's files."""
        with self._lock:
            return list(self._running.get(session, ()))

    def _ingest(self, uploads: list[tuple[Path, str]], cancels: list[Event]) -> Iterator[list[IngestProgress]]:
        """Yield the progress of all files; each is added by a call of its own, so that each can be cancelled."""
        progress = [IngestProgress(name, "waiting", 0, 1) for _, name in uploads]
        yield list(progress)
        for index, (upload, cancel) in enumerate(zip(uploads, cancels, strict=True)):
            self._wait_until_ready(cancel)
            if cancel.is_set():
                progress[index] = IngestProgress(upload[1], "failed", 0, 1, _CANCELLED)
                yield list(progress)
                continue
            for (progress[index],) in self._backend.ingest([upload], cancel):
                yield list(progress)

    def _wait_until_ready(self, cancel: Event) -> None:
        """Block while models load, so that files dropped at startup or during a settings change are not refused."""
        while not ((status := self._backend.status()).ready or status.failed) and not cancel.wait(_POLL_S):
            pass

    def _run(self, session: str, cancels: list[Event], states: Iterator[list[IngestProgress]]) -> Iterator[Update]:
        with self._lock:
            self._running[session] = cancels
        several = len(cancels) > 1
        try:
            yield {self._cancel: gr.Button("Cancel all" if several else "Cancel", visible=True), self._error: ""}
            view: Update = {}
            for files in coalesce(states, _milestone):
                view = {self.progress: render_progress(files, cancel=several), **self._after()}
                yield view
            yield {**view, self._cancel: gr.Button(visible=False)}
        except Exception as error:  # noqa: BLE001  the UI's boundary: show the message, log bugs
            yield {self._error: error_box(user_message(error)), self._cancel: gr.Button(visible=False)}
        finally:
            for event in cancels:
                event.set()
            with self._lock:
                if self._running.get(session) is cancels:
                    del self._running[session]


def _milestone(files: Iterable[IngestProgress]) -> tuple[tuple[str, str], ...]:
    return tuple((file.name, file.stage) for file in files)
