"""A drop zone: adds its files one after the other, shows the steps of each, and lets each be cancelled separately."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from threading import Condition, Event
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from backend.interface.library import IngestProgress
from backend.interface.session import SessionEvent
from ui.events import INSTANT, RUN_INGESTION, Update, coalesce, session_of
from ui.format import count
from ui.html import Markup, button, error_box, tag
from ui.upload_files import in_use

FORMATS = "PDF, Word, Excel, PowerPoint, EPUB, HTML, Markdown, CSV, text or image"
CONNECT_PROGRESS = "kvscopeDocuments.connectProgress(element, trigger);"  # for a component with `render_progress`
_POLL_S = 0.2
_CANCELLED = "Cancelled before processing started."
_STEPS = {"parsed": "parsed", "chunked": "chunked", "embedded": "embedded", "prefilled": "ready"}  # stage -> label
_ENDED = ("done", "failed")
_MAX_NAMES = 20  # of ready files, in the tooltip of their summary


class Uploads:
    """The drop zone and the progress of its files."""

    def __init__(self, backend: Backend, height: int, name: str = "") -> None:
        """Create the zone inside the open Blocks; its element ids start with `name`."""
        self._backend = backend
        self._running: dict[str, list[Event]] = {}  # the cancel event of each file, by session
        self._changed = Condition()  # guards _running
        self.drop_zone = gr.File(
            label=f"Drop {FORMATS} files",
            show_label=False,
            file_count="multiple",
            height=height,
            buttons=[],
            elem_id=f"{name}upload",
            elem_classes="kv-upload",
        )
        self.progress = gr.HTML(elem_id=f"{name}progress", elem_classes="kv-progress", js_on_load=CONNECT_PROGRESS)
        self._cancel = gr.Button("Cancel", size="sm", visible=False, elem_id=f"cancel-{name}upload")
        self._error = gr.HTML(elem_id=f"{name}upload-error", elem_classes="kv-error-box", js_on_load=None)

    def wire(self, document_list: gr.HTML, current: Callable[[], Markup]) -> None:
        """Connect the zone; with each step of a file, `document_list` shows the `current` documents."""
        self._document_list = document_list
        self._current = current
        outputs = [self.drop_zone, *self.progress_outputs(), document_list]
        # preprocess=False keeps each file's original name; Gradio has already checked that the file is an upload.
        self.drop_zone.upload(self.add, self.drop_zone, outputs, preprocess=False, **RUN_INGESTION)
        self._cancel.click(self.cancel, None, None, **INSTANT)
        self.progress.click(self.cancel_one, None, None, **INSTANT)

    def progress_outputs(self) -> list[Any]:
        """Return the components that `follow` updates."""
        return [self.progress, self._cancel, self._error]

    def add(self, files: list[dict[str, Any]] | None, request: gr.Request) -> Iterator[Update]:
        """Add uploaded files one after the other, then remove Gradio's copies of them."""
        uploads = [(Path(file["path"]), file.get("orig_name") or Path(file["path"]).name) for file in files or []]
        session = session_of(request)
        cancels: list[Event] = [SessionEvent(session) for _ in uploads]
        with in_use([path for path, _ in uploads]):
            yield {self.drop_zone: None}
            yield from self._run(session, cancels, self._ingest(uploads, cancels))

    def follow(self, start: Callable[[Event], Iterator[list[IngestProgress]]], request: gr.Request) -> Iterator[Update]:
        """Show the progress of other work on documents; `start` is called with the event that cancels it."""
        cancel = SessionEvent(session_of(request))
        yield from self._run(cancel.session, [cancel], start(cancel))

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
        return self._running.get(session, [])

    def _ingest(self, uploads: list[tuple[Path, str]], cancels: list[Event]) -> Iterator[list[IngestProgress]]:
        """Yield the progress of all files; each is added by a call of its own, so that each can be cancelled."""
        progress = [IngestProgress(name, "waiting", 0, 1) for _, name in uploads]
        yield list(progress)
        for index, (upload, cancel) in enumerate(zip(uploads, cancels, strict=True)):
            while not self._is_loaded() and not cancel.wait(_POLL_S):
                pass  # files dropped at startup or during a settings change are not refused
            if cancel.is_set():
                progress[index] = IngestProgress(upload[1], "failed", 0, 1, _CANCELLED)
                yield list(progress)
                continue
            for (progress[index],) in self._backend.ingest([upload], cancel):
                yield list(progress)

    def _is_loaded(self) -> bool:
        status = self._backend.status()
        return status.ready or status.failed

    def _run(self, session: str, cancels: list[Event], states: Iterator[list[IngestProgress]]) -> Iterator[Update]:
        """Show the progress of work on documents, after the session's earlier work: it is shown in the same place."""
        with self._changed:
            self._changed.wait_for(lambda: session not in self._running)
            self._running[session] = cancels
        several = len(cancels) > 1
        try:
            yield {self._cancel: gr.Button("Cancel all" if several else "Cancel", visible=True), self._error: ""}
            for files in coalesce(states, lambda files: tuple((file.name, file.stage) for file in files)):
                yield {self.progress: render_progress(files, cancel=several), self._document_list: self._current()}
            yield {self._cancel: gr.Button(visible=False)}
        except Exception as error:  # noqa: BLE001  the UI's boundary: show the message, log bugs
            yield {self._error: error_box(user_message(error)), self._cancel: gr.Button(visible=False)}
        finally:
            for event in cancels:
                event.set()
            with self._changed:
                del self._running[session]
                self._changed.notify_all()


def render_progress(files: Iterable[IngestProgress], cancel: bool = False) -> Markup:
    """Return a summary of the files that have ended, and one line per other file: its four steps.

    With `cancel`, each of the latter has a button to cancel it. The summary has errors and warnings; it can be
    dismissed as soon as it is the only line.
    """
    files = list(files)
    ended = [file for file in files if file.stage in _ENDED]
    rows = [
        _progress_row(file, index if cancel else None) for index, file in enumerate(files) if file.stage not in _ENDED
    ]
    if ended:
        rows.insert(0, _summary(ended, len(files)))
    return tag("ul", *rows, class_="kv-files", aria_label="Files being added") if rows else Markup("")


def _summary(ended: Sequence[IngestProgress], total: int) -> Markup:
    ready = [file.name for file in ended if file.stage == "done"]
    text = f"{count(total, 'file')} ready" if len(ready) == total else f"{len(ready)} of {count(total, 'file')} ready"
    close = _close_button("dismiss", "Dismiss", None) if len(ended) == total else None
    messages = (
        tag(
            "p",
            tag("bdi", file.name),
            ": ",
            tag("span", file.message),
            class_="kv-error" if file.stage == "failed" else "kv-warning",
            dir="auto",
        )
        for file in ended
        if file.message
    )
    head = tag(
        "div",
        tag("span", text, title=", ".join(ready[:_MAX_NAMES]) or None, data_names=True),
        close,
        class_="kv-file-head",
    )
    return tag("li", head, *messages, class_="kv-file kv-files-ended")


def _progress_row(file: IngestProgress, index: int | None) -> Markup:
    """Return one file; `index` identifies it for its cancel button, which it has unless `index` is None."""
    close = None if index is None else _close_button("cancel", f"Cancel {file.name}", index)
    head = tag("div", tag("bdi", file.name, class_="kv-clip", title=file.name), close, class_="kv-file-head")
    return tag("li", head, tag("ol", *_steps(file)), class_="kv-file")


def _close_button(act: str, label: str, index: int | None) -> Markup:
    return button(act, index, "\u00d7", class_="kv-remove", title=act.capitalize(), aria_label=label)


def _steps(file: IngestProgress) -> Iterator[Markup]:
    reached = list(_STEPS).index(file.stage) if file.stage in _STEPS else -1
    for step, name in enumerate(_STEPS.values()):
        is_current = step == reached
        is_complete = step < reached or (is_current and 0 < file.total <= file.done)
        progress = tag("span", f" {file.done}/{file.total}") if is_current and file.total > 1 else ""
        look = "kv-complete" if is_complete else "kv-now" if is_current else "kv-ahead"
        yield tag("li", name, progress, class_=look, aria_current="step" if is_current else None)
