"""Files on their way in: into the index, then their passages' KV, so that the first question finds it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event

from assets import ASSETS
from backend.interface.backend import Status
from backend.interface.library import IngestProgress
from backend.runtime.loader import Runtime, RuntimeLoader
from backend.runtime.tasks import TaskRegistry
from engine.errors import Cancelled
from store.errors import KVScopeError
from store.types import Chunk, Progress

SAMPLES = ASSETS / "samples"
_SETTLED = ("prefilled", "done", "failed")  # stages at which searches find a file's passages, or never will
_NAMED = 3  # files that a sentence names
log = logging.getLogger("kvscope")


class IngestService:
    """Adds files to the documents of the house, one after the other."""

    def __init__(self, loader: RuntimeLoader, work: TaskRegistry) -> None:
        self._loader, self._work = loader, work
        self._under_way: dict[int, list[IngestProgress]] = {}

    def unread(self) -> str:
        """Return which files a search that begins now does not find yet, in a sentence; empty if there are none."""
        states = [state for states in list(self._under_way.values()) for state in states]
        names = [state.name for state in states if state.stage not in _SETTLED]
        if not names:
            return ""
        named = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        return f"Not searched, because still being read: {named}. Ask again when that is done."

    def add(self, files: list[tuple[Path, str]], cancel: Event) -> Iterator[list[IngestProgress]]:
        """Add (path, shown name) files; each step yields the state of all of them. Errors end in a sentence."""
        states = [IngestProgress(name, "waiting", 0, 1) for _, name in files]
        with self._work.track(cancel), self._known(states):
            house = self._loader.ready()
            for place, (path, name) in enumerate(files):
                for states[place] in self.follow(house, name, partial(house.documents.add, path, name), cancel):
                    yield list(states)

    def samples(self, line: str, marker: Path) -> None:
        """Add the sample documents once; a person who deletes them does not get them back."""
        if marker.exists():
            return
        self._loader.say(Status(ready=True, line=f"{line}. Reading the sample documents", reading=True))
        files = [(path, path.name) for path in sorted(SAMPLES.iterdir())]
        states: list[IngestProgress] = []
        for states in self.add(files, Event()):
            log.debug("%s", states)
        if all(state.stage == "done" for state in states):  # else the next start goes on with those that are missing
            with suppress(OSError):
                marker.touch()

    def follow(
        self, house: Runtime, name: str, begin: Callable[[], Iterator[Progress]], cancel: Event, kept: str = ""
    ) -> Iterator[IngestProgress]:
        """Yield the states of one file on its way into the documents and then into the tiers.

        begin  starts the steps; they are closed, with what is half done undone, before a stop or an error is told
        kept   what is said of a document that is stopped or fails on its way; every error ends in a sentence
        """
        stage, document, warning = "waiting", None, ""
        try:
            for step in begin():
                stage, document, warning = step.stage, step.document, step.warning or warning
                yield IngestProgress(name, stage, step.done, step.total, warning)
                if cancel.is_set():
                    raise Cancelled
            chunks = house.documents.chunks(document.id) if document else []
            stage = "prefilled"
            yield from self.prefill(house, name, chunks, warning, cancel)
            yield IngestProgress(name, "done", len(chunks), len(chunks), _full(house, warning))
        except Cancelled:
            if self._work.paused_now:
                kept = f"The settings were changed meanwhile; do it again. {kept}"
            kept = "It is in the library; its passages are prepared when a question needs them." if document else kept
            yield IngestProgress(name, "done" if document else "failed", 0, 1, f"Stopped. {kept}".strip())
        except KVScopeError as error:
            yield IngestProgress(name, "failed", 0, 1, f"{error} {kept}".strip())
        except Exception as error:
            log.exception("%r failed while it was being %s", name, stage)
            said = f"Something broke ({type(error).__name__}). The log says more. {kept}"
            yield IngestProgress(name, "failed", 0, 1, said.strip())

    def prefill(
        self, house: Runtime, name: str, chunks: list[Chunk], warning: str, cancel: Event
    ) -> Iterator[IngestProgress]:
        """Compute the passages' KV now, so that the first question finds it, as far as the disk budget goes."""
        for done, chunk in enumerate(chunks):
            if house.tiers.nearly_full or not house.documents.chunks_by_id([chunk.id]):
                break  # it would only push other passages out, or nobody wants it any more
            house.tiers.wait_for_room()
            yield IngestProgress(name, "prefilled", done, len(chunks), warning)
            house.engine.warm(chunk.text, cancel)
            if not house.documents.chunks_by_id([chunk.id]):
                house.engine.forget(chunk.text)

    @contextmanager
    def _known(self, states: list[IngestProgress]) -> Iterator[None]:
        self._under_way[id(states)] = states
        try:
            yield
        finally:
            del self._under_way[id(states)]


def _full(house: Runtime, warning: str) -> str:
    if house.blobs is not None and house.tiers.disk_error:
        return "The disk takes no more: after a restart passages are prepared again. Free some disk space."
    return warning
