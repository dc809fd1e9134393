"""Implementation of the Library page's interface: adding, re-indexing and deleting documents, and their KV usage."""

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from threading import Event, Lock
from time import monotonic, sleep
from typing import Any

from assets import ASSETS
from backend.interface.backend import Status
from backend.interface.library import DocumentUsage, IngestProgress, Passage
from backend.interface.session import SessionEvent
from backend.runtime.ingest_queue import IngestQueue, TimeLimit
from backend.runtime.loader import Runtime, RuntimeLoader
from backend.runtime.tasks import MAX_WAIT_S, TaskRegistry
from backend.services.cache import ChunkOwners, DocumentKeys
from backend.services.suggestions import MAX_PASSAGES, suggest_questions
from engine.cache.admin import chunk_bytes
from engine.errors import Cancelled, LoadingFailed, ModelNotReady
from store.atomic import write_atomic
from store.disk_full import disk_full_as_store_full
from store.errors import KVScopeError, LibraryUnavailable
from store.ingest.chunker import chunk_config_of
from store.preferences import COLLECTIONS, Preferences
from store.types import Document, Excerpt, Progress

SAMPLES = ASSETS / "samples"
MAX_NAMES = 3  # file names in a message
UNCHANGED = "The document is unchanged."
WITHOUT_KV = "The document was added; its KV is computed when a question needs it."
_FINISHED_STAGES = ("prefilled", "done", "failed")  # the file is searchable, or never will be
_SAME_FILE_POLL_S = 0.5
IndexSteps = Callable[[Runtime, int], Iterator[Progress]]  # puts the document at an index into the library
log = logging.getLogger("kvscope")


@dataclass
class LocalLibraryService:
    loader: RuntimeLoader
    tasks: TaskRegistry
    chunk_owners: ChunkOwners
    _queue: IngestQueue = field(default_factory=IngestQueue)
    _suggested: dict[Document, list[str]] = field(default_factory=dict)  # questions of the last documents asked for
    _settings_lock: Lock = field(default_factory=Lock)  # of the settings of collections
    _adding: dict[int, list[IngestProgress]] = field(default_factory=dict)  # by the list's id

    def list_with_usage(self) -> list[DocumentUsage]:
        usage = []
        try:
            with suppress(ModelNotReady, LoadingFailed), self.loader.borrow() as runtime:
                all_keys, chunking = self.chunk_owners.keys(runtime), runtime.documents.info().chunking
                for document in runtime.documents.documents():
                    keys = all_keys.get(document.id)
                    bytes_by_tier = None if keys is None else chunk_bytes(runtime.tiers.tree, _flatten(keys))
                    usage.append(DocumentUsage(document, bytes_by_tier, chunk_config_of(document) != chunking))
        except LibraryUnavailable:
            return [DocumentUsage(document, None) for document in self.loader.documents()]
        return usage

    def passages(self, document_id: str, start: int, count: int) -> list[Passage]:
        passages = []
        with self.loader.borrow() as runtime:
            cache, tree = runtime.engine.cache, runtime.tiers.tree
            for chunk in runtime.documents.chunks(document_id)[start : start + count]:
                ids = runtime.engine.template.passage(chunk.passage).ids
                nodes = tree.match_prefix([cache.chunk_key(ids)])
                level = nodes[0].level if nodes else len(tree.tiers)
                tier = tree.tiers[level].name if level < len(tree.tiers) else ""
                passages.append(Passage(chunk, len(ids), tier))
        return passages

    def suggested_questions(self, document_ids: Sequence[str], limit: int) -> list[str]:
        by_document: dict[Document, list[str]] = {}
        with suppress(ModelNotReady, LoadingFailed), self.loader.borrow() as runtime:
            documents = {document.id: document for document in runtime.documents.documents()}
            for document in (documents[each] for each in document_ids if each in documents):
                known = self._suggested.get(document)
                if known is None:
                    chunks = runtime.documents.chunks(document.id, MAX_PASSAGES)
                    known = suggest_questions(document.name, [chunk.text for chunk in chunks])
                by_document[document] = known
            self._suggested = by_document
        in_turn = chain.from_iterable(zip_longest(*by_document.values()))
        return list(islice(dict.fromkeys(filter(None, in_turn)), limit))

    def excerpt(self, chunk_id: str) -> Excerpt:
        with self.loader.borrow() as runtime:
            return runtime.documents.excerpt(chunk_id)

    def bytes_freed_by_delete(self, document_ids: Sequence[str]) -> int:
        with self.loader.borrow() as runtime:
            all_keys = self.chunk_owners.keys(runtime, document_ids, max_s=float("inf"))
            keys = [key for document_keys in all_keys.values() for key in _flatten(document_keys or {})]
            return sum(chunk_bytes(runtime.tiers.tree, keys).values())

    def rename(self, document_id: str, name: str) -> Document:
        with self.loader.borrow() as runtime:
            return runtime.documents.rename(document_id, name)

    def add_to_collection(self, document_ids: Sequence[str], name: str) -> None:
        with self.loader.borrow() as runtime:
            runtime.documents.add_to_collection(document_ids, name)

    def remove_from_collection(self, document_ids: Sequence[str], name: str) -> None:
        with self.loader.borrow() as runtime:
            runtime.documents.remove_from_collection(document_ids, name)
        self.drop_unused_settings()

    def collection_settings(self, name: str) -> dict[str, Any]:
        values = self._collections.read().get(name)
        return values if isinstance(values, dict) else {}

    def remember_settings(self, name: str, values: Mapping[str, Any]) -> None:
        with self.loader.borrow() as runtime, self._settings_lock:
            existing = {each for document in runtime.documents.documents() for each in document.collections}
            saved = self._collections.read()
            changed = {**saved, name: dict(values)}
            kept = {key: value for key, value in changed.items() if value and key in existing}
            if kept != saved:
                self._collections.write(kept)

    def drop_unused_settings(self) -> None:
        """Forget the settings of collections that have no documents any more."""
        with suppress(KVScopeError):  # a later call forgets them
            self.remember_settings("", {})

    @property
    def _collections(self) -> Preferences:
        return Preferences(self.loader.settings.data, COLLECTIONS)

    def copy(self, document_id: str, target: Path) -> None:
        with self.loader.borrow() as runtime:
            data = runtime.documents.copy(document_id)
        with disk_full_as_store_full("keep a replaced document"):
            target.parent.mkdir(mode=0o700, exist_ok=True)
            write_atomic(target, data)

    def restore(self, source: Path) -> None:
        with self.loader.borrow() as runtime:
            runtime.documents.restore(source)
        self.loader.on_open()  # computes its vectors

    def add(self, files: Sequence[tuple[Path, str]], cancel: Event) -> Iterator[list[IngestProgress]]:
        """Add files, given as path and display name; yield the progress of all. Errors become messages."""
        states = [IngestProgress(name, "waiting", 0, 1) for _, name in files]
        self._adding[id(states)] = states
        try:
            yield from self._index(states, lambda runtime, i: runtime.documents.add(*files[i]), cancel)
        finally:
            del self._adding[id(states)]

    def add_samples(self, message: str) -> None:
        """Add the sample documents once, so that deleted samples do not come back; show `message` meanwhile."""
        marker = self.loader.settings.data / "samples-added"
        if marker.exists():
            return
        message = f"{message}. Adding the sample documents"
        self.loader.status = Status(ready=True, message=message, adding_samples=True)
        *_, states = self.add([(path, path.name) for path in sorted(SAMPLES.iterdir())], Event())
        if all(state.stage == "done" for state in states):  # else the next start adds the missing ones
            with suppress(OSError):
                marker.touch()

    def pending_message(self) -> str:
        """Return a message that names the files which are not searchable yet; empty if there are none."""
        progress = [state for states in list(self._adding.values()) for state in states]
        names = [state.name for state in progress if state.stage not in _FINISHED_STAGES]
        if not names:
            return ""
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        return f"Not searched, still being added: {', '.join(names[:MAX_NAMES])}{more}. Ask again later."

    def reindex(self, document_ids: Sequence[str], cancel: Event) -> Iterator[list[IngestProgress]]:
        names = {document.id: document.name for document in self.loader.documents()}
        states = [IngestProgress(names.get(each, "A deleted document"), "waiting", 0, 1) for each in document_ids]
        yield from self._index(states, lambda runtime, i: self._rechunk(runtime, document_ids[i]), cancel, UNCHANGED)

    def _rechunk(self, runtime: Runtime, document_id: str) -> Iterator[Progress]:
        """Yield the steps of re-indexing; delete the KV of old chunks while their texts are still known."""
        library = runtime.documents
        old_texts = [chunk.passage for chunk in library.chunks(document_id)]
        for step in library.reindex(document_id):
            is_indexed = step.stage == "indexed"
            if is_indexed or (step.stage == "embedded" and step.done == step.total):
                current = {chunk.passage for chunk in library.chunks(document_id)} if is_indexed else set()
                for text in old_texts:
                    if text not in current:
                        runtime.engine.passages.delete(text)
                self.chunk_owners.discard(document_id)
            yield step

    def _index(
        self, states: list[IngestProgress], start: IndexSteps, cancel: Event, failure_note: str = ""
    ) -> Iterator[list[IngestProgress]]:
        """Index documents one after the other, yielding all states; `failure_note` is added to error messages."""
        with self.tasks.track(cancel):
            runtime = self.loader.ready()
            yield list(states)
            for i, state in enumerate(states):
                steps = partial(start, runtime, i)
                for states[i] in self._index_document(runtime, state.name, steps, cancel, failure_note):
                    yield list(states)

    def _index_document(
        self, runtime: Runtime, name: str, start: Callable[[], Iterator[Progress]], cancel: Event, failure_note: str
    ) -> Iterator[IngestProgress]:
        """Index one document and prefill its chunks for the first question.

        Errors become messages: after rollback, or those of the prefill with the document, which stays.
        """

        def at(stage: str, done: int, total: int, message: str) -> IngestProgress:
            document_id = document.id if document else ""
            return IngestProgress(name, stage, done, total, message, document_id, unchanged)

        def ended(message: str, remedy: str = "") -> IngestProgress:
            if document:
                return at("done", 0, 1, f"{message} {WITHOUT_KV}")
            return at("failed", 0, 1, " ".join(filter(None, (message, remedy, failure_note))))

        minutes = self.loader.settings.ingest_timeout_minutes
        session = cancel.session if isinstance(cancel, SessionEvent) else ""
        stage, warning, unchanged = "waiting", "", False
        document: Document | None = None
        slot = ExitStack()
        try:
            slot.enter_context(self._queue.slot(session, cancel))
            limit = TimeLimit(cancel, 60 * minutes)
            with closing(_until_claimed(start)) as steps:  # closing rolls back; only then an error is reported
                while step := self._next_step(steps, stage, limit):
                    stage, document, warning = step.stage, step.document, step.warning or warning
                    unchanged = step.unchanged
                    yield at(stage, step.done, step.total, warning)
            chunks = runtime.documents.chunks(document.id) if document else []
            stage = "prefilled"
            for done, chunk in enumerate(chunks):
                if runtime.tiers.is_nearly_full or not runtime.documents.chunks_by_id([chunk.id]):
                    break  # more KV would evict other chunks, or the document was deleted
                runtime.tiers.wait_for_space()
                yield at(stage, done, len(chunks), warning)
                with self._queue.turn(limit):
                    self._warm(runtime, chunk.passage, limit)
                if not runtime.documents.chunks_by_id([chunk.id]):
                    runtime.engine.passages.delete(chunk.passage)
            if runtime.blobs is not None and runtime.tiers.disk_error:
                warning = "The disk cache is full; new KV stays in memory and is lost on restart. Free some disk space."
            yield at("done", len(chunks), len(chunks), warning)
        except Cancelled:
            if not cancel.is_set():
                remedy = "Split the file, or restart with a larger --ingest-timeout-minutes."
                yield ended(f"Stopped after {minutes:g} minutes, the limit for one document.", remedy)
            else:
                yield ended("Stopped.", "The settings were changed; try again." if self.tasks.is_draining else "")
        except KVScopeError as error:
            yield ended(str(error))
        except Exception as error:
            log.exception("%r failed after the stage %r", name, stage)
            yield ended(f"Something went wrong ({type(error).__name__}). See the log for details.")
        finally:
            slot.close()

    def _next_step(self, steps: Iterator[Progress], stage: str, cancel: Event) -> Progress | None:
        """Return the step that follows one of this stage; None after the last. Raises Cancelled.

        A file is read by a process of its own, and waiting for it takes no turn.
        """
        is_reading = stage in ("waiting", "parsed")
        with nullcontext() if is_reading else self._queue.turn(cancel):
            with self.tasks.between_questions(cancel) if stage == "embedded" else nullcontext():
                if cancel.is_set():
                    raise Cancelled
            return next(steps, None)

    def _warm(self, runtime: Runtime, passage: str, cancel: Event) -> None:
        """Compute and cache a passage's KV, again from the start if a question interrupts. Raises Cancelled.

        MAX_WAIT_S after the first interruption, questions no longer interrupt it.
        """
        interrupted: float | None = None
        while True:
            max_wait_s = MAX_WAIT_S if interrupted is None else interrupted + MAX_WAIT_S - monotonic()
            with self.tasks.between_questions(cancel, max_wait_s) as interrupt, suppress(Cancelled):
                return runtime.engine.passages.warm(passage, interrupt)
            if cancel.is_set():
                raise Cancelled
            interrupted = interrupted or monotonic()


def _until_claimed(start: Callable[[], Iterator[Progress]]) -> Generator[Progress, None, None]:
    """Yield the steps; start them again while another session adds the same file: it may be cancelled."""
    document = None
    while document is None:
        for step in start():
            document = step.document
            if step.stage == "indexed" and document is None:
                sleep(_SAME_FILE_POLL_S)
                step = Progress("waiting", 0, 1)
            yield step


def _flatten(keys: DocumentKeys) -> list[str]:
    return [key for roles in keys.values() for key in roles]
