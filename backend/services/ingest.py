"""Adds documents to the library, then prefills their chunks so that the first question can reuse their KV."""

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
MAX_NAMES = 3  # file names in a message
_FINISHED_STAGES = ("prefilled", "done", "failed")  # the file is searchable, or never will be
log = logging.getLogger("kvscope")


class IngestService:
    """Adds files to the library, one after the other."""

    def __init__(self, loader: RuntimeLoader, tasks: TaskRegistry) -> None:
        self._loader = loader
        self._tasks = tasks
        self._running: dict[int, list[IngestProgress]] = {}

    def pending_message(self) -> str:
        """Return a message that names the files which are not searchable yet; empty if there are none."""
        progress = [state for states in list(self._running.values()) for state in states]
        names = [state.name for state in progress if state.stage not in _FINISHED_STAGES]
        if not names:
            return ""
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        return f"Not searched, still being added: {', '.join(names[:MAX_NAMES])}{more}. Ask again later."

    def add(self, files: list[tuple[Path, str]], cancel: Event) -> Iterator[list[IngestProgress]]:
        """Add files, given as path and display name; yield the progress of all. Errors become messages."""
        states = [IngestProgress(name, "waiting", 0, 1) for _, name in files]
        with self._tasks.track(cancel), self._running_ingest(states):
            runtime = self._loader.ready()
            for i, (path, name) in enumerate(files):
                steps = partial(runtime.library.add, path, name)
                for states[i] in self.ingest_document(runtime, name, steps, cancel):
                    yield list(states)

    def add_samples(self, message: str, marker: Path) -> None:
        """Add the sample documents unless `marker` exists; it is created so that deleted samples do not come back."""
        if marker.exists():
            return
        status = Status(ready=True, message=f"{message}. Adding the sample documents", adding_samples=True)
        self._loader.status = status
        files = [(path, path.name) for path in sorted(SAMPLES.iterdir())]
        states: list[IngestProgress] = []
        for states in self.add(files, Event()):
            log.debug("%s", states)
        if all(state.stage == "done" for state in states):  # else the next start adds the missing ones
            with suppress(OSError):
                marker.touch()

    def ingest_document(
        self,
        runtime: Runtime,
        name: str,
        start: Callable[[], Iterator[Progress]],
        cancel: Event,
        failure_note: str = "",
    ) -> Iterator[IngestProgress]:
        """Run the steps that put one document into the library, then prefill it. Errors become messages.

        start         starts the steps; the iterator is closed, which rolls back, before a failure is reported
        failure_note  added to the message if the document does not get into the library
        """
        stage, document, warning = "waiting", None, ""
        try:
            for step in start():
                stage, document, warning = step.stage, step.document, step.warning or warning
                yield IngestProgress(name, stage, step.done, step.total, warning)
                if cancel.is_set():
                    raise Cancelled
            chunks = runtime.library.chunks(document.id) if document else []
            stage = "prefilled"
            yield from self._prefill(runtime, name, chunks, warning, cancel)
            yield IngestProgress(name, "done", len(chunks), len(chunks), _disk_warning(runtime) or warning)
        except Cancelled:
            if document:
                note = "The document was added; its KV is computed when a question needs it."
            elif self._tasks.is_draining:
                note = f"The settings were changed; try again. {failure_note}"
            else:
                note = failure_note
            yield IngestProgress(name, "done" if document else "failed", 0, 1, f"Stopped. {note}".strip())
        except KVScopeError as error:
            yield IngestProgress(name, "failed", 0, 1, f"{error} {failure_note}".strip())
        except Exception as error:
            log.exception("%r failed after the stage %r", name, stage)
            message = f"Something went wrong ({type(error).__name__}). See the log for details. {failure_note}"
            yield IngestProgress(name, "failed", 0, 1, message.strip())

    def _prefill(
        self, runtime: Runtime, name: str, chunks: list[Chunk], warning: str, cancel: Event
    ) -> Iterator[IngestProgress]:
        for done, chunk in enumerate(chunks):
            if runtime.tiers.is_nearly_full or not runtime.library.chunks_by_id([chunk.id]):
                break  # more KV would evict other chunks, or the document was deleted
            runtime.tiers.wait_for_space()
            yield IngestProgress(name, "prefilled", done, len(chunks), warning)
            runtime.engine.passages.warm(chunk.text, cancel)
            if not runtime.library.chunks_by_id([chunk.id]):
                runtime.engine.passages.delete(chunk.text)

    @contextmanager
    def _running_ingest(self, states: list[IngestProgress]) -> Iterator[None]:
        self._running[id(states)] = states
        try:
            yield
        finally:
            del self._running[id(states)]


def _disk_warning(runtime: Runtime) -> str:
    if runtime.blobs is not None and runtime.tiers.disk_error:
        return "The disk cache is full; new KV stays in memory and is lost on restart. Free some disk space."
    return ""
