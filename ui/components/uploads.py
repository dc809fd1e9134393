"""A drop zone: files are added one after the other, each with its steps, and each can be cancelled on its own."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Event, Lock
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from backend.interface.library import IngestProgress
from ui.components.document_list import DISMISS, progress
from ui.events import LIBRARY, QUIET, Update, session_of
from ui.html import Markup, tag
from ui.throttle import coalesce

KINDS = "PDF, DOCX, Markdown, HTML or text"
_PACE_S = 0.2
CANCELLED = "Cancelled before it was read."
# The list is drawn anew many times a second, so a press counts as soon as it goes down; the keyboard sends clicks.
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
    """The zone and its progress. Of a session only the cancel events of the files under way are kept here.

    name   makes the ids of the elements; empty for the panel's own
    after  what else of the page changes once a file has come a step further
    """

    def __init__(self, backend: Backend, after: Callable[[], Update], name: str = "") -> None:
        self._backend, self._after, self._name = backend, after, name
        self._lock = Lock()
        self._under_way: dict[str, list[Event]] = {}

    def build(self, height: int) -> None:
        """Draw the zone inside the open Blocks."""
        self._files = gr.File(
            label=f"Drop {KINDS} files",
            show_label=False,
            file_count="multiple",
            height=height,
            buttons=[],
            elem_id=f"{self._name}upload",
            elem_classes="kv-upload",
        )
        self._progress = gr.HTML(elem_id=f"{self._name}progress", elem_classes="kv-progress", js_on_load=_ON_PRESS)
        self._cancel = gr.Button("Cancel", size="sm", visible=False, elem_id=f"cancel-{self._name}upload")
        self._trouble = gr.HTML(elem_id=f"{self._name}upload-trouble", elem_classes="kv-trouble-box", js_on_load=None)

    def wire(self, others: Iterable[Any]) -> None:
        """Connect the zone; `others` are the components that `after` changes."""
        outputs = [self._files, *self.shown(), *others]
        added: dict[str, Any] = {"concurrency_id": LIBRARY, "concurrency_limit": 1}
        # Without preprocessing, each file keeps its original name; Gradio has checked by then that it was uploaded.
        self._files.upload(self.add, self._files, outputs, preprocess=False, **added, **QUIET)
        self._cancel.click(self.cancel, None, None, queue=False, **QUIET)
        self._progress.click(self.cancel_one, None, None, queue=False, **QUIET)

    def shown(self) -> list[Any]:
        """Return the components that `follow` changes."""
        return [self._progress, self._cancel, self._trouble]

    def add(self, files: list[dict[str, Any]] | None, request: gr.Request) -> Iterator[Update]:
        """Add uploaded files one after the other; the copies that Gradio made are removed at the end."""
        uploads = [(Path(file["path"]), file.get("orig_name") or Path(file["path"]).name) for file in files or []]
        session, under_way = session_of(request), [Event() for _ in uploads]
        try:
            yield {self._files: None}
            yield from self._follow(session, under_way, self._states(uploads, under_way))
        finally:
            for path, _ in uploads:
                with contextlib.suppress(OSError):
                    path.unlink()

    def follow(
        self, states: Callable[[Event], Iterator[list[IngestProgress]]], request: gr.Request
    ) -> Iterator[Update]:
        """Show other work on documents in the same place; `states` gets the event that cancels all of it."""
        cancel = Event()
        yield from self._follow(session_of(request), [cancel], states(cancel))

    def cancel(self, request: gr.Request) -> None:
        """Stop everything of this session that is under way here."""
        for event in self._events(session_of(request)):
            event.set()

    def cancel_one(self, request: gr.Request, event: gr.EventData) -> None:
        """Stop one file of this session; the next one goes on."""
        place = str(event._data.get("place"))
        events = self._events(session_of(request))
        if place.isdecimal() and int(place) < len(events):
            events[int(place)].set()

    def _states(self, uploads: list[tuple[Path, str]], under_way: list[Event]) -> Iterator[list[IngestProgress]]:
        """Yield the state of all files, each added by itself, so that each can be stopped by itself."""
        states = [IngestProgress(name, "waiting", 0, 1) for _, name in uploads]
        yield list(states)
        for place, (upload, cancel) in enumerate(zip(uploads, under_way, strict=True)):
            self._wait(cancel)
            if cancel.is_set():
                states[place] = IngestProgress(upload[1], "failed", 0, 1, CANCELLED)
                yield list(states)
                continue
            for (states[place],) in self._backend.ingest([upload], cancel):
                yield list(states)

    def _wait(self, cancel: Event) -> None:
        """Wait while models are loading: no file is lost that is dropped before, or beside a change of settings."""
        while not ((status := self._backend.status()).ready or status.failed) and not cancel.wait(_PACE_S):
            pass

    def _follow(self, session: str, under_way: list[Event], states: Iterator[list[IngestProgress]]) -> Iterator[Update]:
        with self._lock:
            self._under_way[session] = under_way
        each = len(under_way) > 1
        try:
            yield {self._cancel: gr.Button("Cancel all" if each else "Cancel", visible=True), self._trouble: ""}
            view: Update = {}
            for state in coalesce(states, _milestone):
                view = {self._progress: progress(state, cancel=each), **self._after()}
                yield view
            yield {**view, self._cancel: gr.Button(visible=False)}
        except Exception as error:  # noqa: BLE001  the page's border: every error becomes a sentence, bugs are logged
            yield {self._trouble: trouble(error), self._cancel: gr.Button(visible=False)}
        finally:
            for event in under_way:
                event.set()
            with self._lock:
                if self._under_way.get(session) is under_way:
                    del self._under_way[session]

    def _events(self, session: str) -> list[Event]:
        with self._lock:
            return list(self._under_way.get(session, ()))


def trouble(error: Exception) -> Markup:
    """Return an error as a sentence in a box."""
    return tag("p", user_message(error), class_="kv-trouble", role="alert", dir="auto")


def _milestone(files: Iterable[IngestProgress]) -> tuple[tuple[str, str], ...]:
    return tuple((file.name, file.stage) for file in files)
