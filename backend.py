"""The page's backend: models load behind a status line, then library and engine answer.

One object per process. Everything a page asks for before the models are there is a clear sentence, not a wait.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from threading import Event, Thread
from typing import Any

from tokenizers import Tokenizer

from engine.answer import Answer, Request
from engine.errors import Cancelled, LoadingFailed, ModelNotReady
from engine.own_thread import in_own_thread
from engine.pipeline import Engine
from engine.reuse.strategies import methods
from engine.setting import Method
from engine.startup import ModelConfig, Models, build_engine, load_models
from engine.tree.tiers import Tiers, TiersConfig
from settings import Settings
from store.blobs import DiskBlobs
from store.chunk import ChunkConfig
from store.errors import KVScopeError, StoreFull
from store.library import DocumentLibrary, LibraryConfig
from store.minilm import MiniLM
from store.rerank import CrossEncoderReranker
from store.types import Chunk, Document
from ui.backend import IngestProgress, Kept, Status

SAMPLES = Path(__file__).parent / "assets" / "samples"
GIB = 2**30
LAST_STEP_S = 10.0  # the longest step that cannot be stopped half way, such as reading the weights
log = logging.getLogger("kvscope")


class LocalBackend:
    """Models, library and engine of one data folder (hold its FolderLock)."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._status = Status(ready=False, line="Starting")
        self._engine: Engine | None = None
        self._blobs: DiskBlobs | None = None
        self._loading = Thread(target=self._load, name="loading", daemon=True)
        self._closing = Event()
        self._running: set[Event] = set()  # stops of all questions and additions under way

    def start(self) -> None:
        """Load the models in the background."""
        self._loading.start()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until loading has ended, well or badly."""
        self._loading.join(timeout)

    def status(self) -> Status:
        return self._status

    def methods(self) -> list[Method]:
        return methods()

    def documents(self) -> list[Document]:
        return self._library.documents() if self._engine else []

    def ingest(self, files: list[tuple[Path, str]], cancel: Event) -> Iterator[list[IngestProgress]]:
        self._ready()
        states = [IngestProgress(name, "waiting", 0, 1) for _, name in files]
        with self._stoppable(cancel):
            for place, (path, name) in enumerate(files):
                for states[place] in self._ingest_one(path, name, cancel):
                    yield list(states)

    def delete(self, document_id: str) -> None:
        engine, chunks = self._ready(), self._library.chunks(document_id)
        for chunk in chunks:  # before the document goes: afterwards nobody would know its passages
            engine.forget(chunk.text)
        for chunk in self._library.delete(document_id):
            engine.forget(chunk.text)
        engine.forget_others()

    def kept(self) -> list[Kept]:
        if self._engine is None:
            return []
        return [Kept(tier.name, tier.size_bytes, tier.budget_bytes) for tier in self._tiers.tree.tiers]

    def clear(self) -> None:
        self._ready()
        self._tiers.tree.clear()

    def ask(self, request: Request, cancel: Event) -> Iterator[Answer]:
        engine = self._ready()
        with self._stoppable(cancel):  # copies: the engine goes on with its answer while the page shows this one
            yield from in_own_thread(lambda: map(copy, engine.ask(request, cancel)), cancel)

    def inspect(self, request: Request, cancel: Event) -> dict[str, Any]:
        engine = self._ready()
        with self._stoppable(cancel):
            return engine.inspect(request, cancel).as_dict()

    def close(self) -> None:
        """Stop all work, then close the files; once. The next start finds everything as it was."""
        if self._closing.is_set():
            return
        self._closing.set()
        for cancel in list(self._running):
            cancel.set()
        if self._loading.is_alive():
            self._loading.join(LAST_STEP_S)
        if self._engine:
            self._engine.close(LAST_STEP_S)
            self._library.close()
            self._tiers.close()
            if self._blobs is not None:
                self._blobs.close()

    @contextmanager
    def _stoppable(self, cancel: Event) -> Iterator[None]:
        """Let `close` stop the enclosed work as well."""
        self._running.add(cancel)
        if self._closing.is_set():
            cancel.set()
        try:
            yield
        finally:
            self._running.discard(cancel)

    def _ready(self) -> Engine:
        if self._status.failed:
            raise LoadingFailed(self._status.line)
        if self._engine is None:
            raise ModelNotReady(f"{self._status.line}.")
        return self._engine

    def _load(self) -> None:
        try:
            config = ModelConfig(
                folder=self._settings.data / "models",
                model=self._settings.model,
                auxiliary=self._settings.auxiliary,
                device=self._settings.device,
                dtype=self._settings.dtype,
                reader=self._settings.reader,
                selector=self._settings.selector,
            )
            models = load_models(config, self._report)
            self._report("Opening the library", 0.95)
            self._tiers = self._open_tiers(models)
            self._engine = build_engine(models, self._open_library, self._tiers, self._settings.data)
            finetuned = " with its reader" if config.adapter else ""
            line = f"{models.primary.name}{finetuned}, {models.precision}"
            if self._settings.samples:
                self._add_samples(line)
            self._status = Status(ready=True, line=line)
        except Cancelled:
            self._status = Status(ready=False, line="Closed")
        except KVScopeError as error:
            log.error("%s", error)
            self._status = Status(ready=False, line=str(error), failed=True)
        except Exception as error:
            log.exception("the models could not be loaded")
            said = f"Loading broke ({type(error).__name__}: {error}). The log says more."
            self._status = Status(ready=False, line=said, failed=True)

    def _open_tiers(self, models: Models) -> Tiers:
        wanted = self._settings
        config = TiersConfig(
            host_bytes=int(wanted.host_gib * GIB),
            disk_bytes=int(wanted.disk_gib * GIB),
            device_bytes=int(wanted.device_gib * GIB),
            policy=wanted.policy,
            bits=wanted.kv_bits,
        )
        try:
            self._blobs = DiskBlobs(wanted.data / "kv")
        except StoreFull as error:
            log.warning("chunk KV stays in memory only: %s", error)
        return Tiers(config, self._blobs, models.primary.device)

    def _open_library(self, tokenizer: Tokenizer) -> DocumentLibrary:
        chunking = ChunkConfig(self._settings.chunk_tokens, self._settings.chunk_overlap)
        config = LibraryConfig(chunking=chunking)
        reranker, name = None, self._settings.reranker
        if name != "off":
            self._report(f"Loading {Path(name).name}", 0.95)
            reranker = CrossEncoderReranker(name)
        folder = self._settings.data / "library"
        self._library = DocumentLibrary(folder, tokenizer, MiniLM(), config, reranker=reranker)
        return self._library

    def _report(self, said: str, share: float) -> None:
        if self._closing.is_set():
            raise Cancelled
        if self._status.line != said:
            log.info(said)
        self._status = Status(ready=False, line=said, share=share)

    def _add_samples(self, line: str) -> None:
        """Add the sample documents once; a person who deletes them does not get them back."""
        marker = self._settings.data / "samples-added"
        if marker.exists():
            return
        self._status = Status(ready=True, line=f"{line}. Reading the sample documents")
        files = [(path, path.name) for path in sorted(SAMPLES.iterdir())]
        for states in self.ingest(files, Event()):
            log.debug("%s", states)
        with suppress(OSError):
            marker.touch()

    def _ingest_one(self, path: Path, name: str, cancel: Event) -> Iterator[IngestProgress]:
        """Yield the states of one file; every error ends in a sentence, none in the next file's way."""
        stage, document, warning = "waiting", None, ""
        try:
            for step in self._library.add(path, name):
                stage, document, warning = step.stage, step.document, step.warning
                yield IngestProgress(name, stage, step.done, step.total, warning)
                if cancel.is_set():
                    raise Cancelled
            chunks = self._library.chunks(document.id) if document else []
            stage = "prefilled"
            yield from self._prefill(name, chunks, warning, cancel)
            yield IngestProgress(name, "done", len(chunks), len(chunks), self._full(warning))
        except Cancelled:
            kept = "It is in the library; its passages are prepared when a question needs them." if document else ""
            yield IngestProgress(name, "done" if document else "failed", 0, 1, f"Stopped. {kept}".strip())
        except KVScopeError as error:
            yield IngestProgress(name, "failed", 0, 1, str(error))
        except Exception as error:
            log.exception("adding %r failed while it was being %s", name, stage)
            yield IngestProgress(name, "failed", 0, 1, f"Something broke ({type(error).__name__}). The log says more.")

    def _prefill(self, name: str, chunks: list[Chunk], warning: str, cancel: Event) -> Iterator[IngestProgress]:
        """Compute the passages' KV now, so that the first question finds it, as far as the disk budget goes."""
        engine = self._ready()
        for done, chunk in enumerate(chunks):
            if self._tiers.nearly_full or self._tiers.trouble or not self._library.chunks(chunk.document_id):
                break  # it would only push other passages out, or nobody wants it any more
            self._tiers.wait_for_room()
            yield IngestProgress(name, "prefilled", done, len(chunks), warning)
            engine.warm(chunk.text, cancel)
            if not self._library.chunks(chunk.document_id):
                engine.forget(chunk.text)

    def _full(self, warning: str) -> str:
        if self._tiers.trouble:
            return "The disk takes no more: passages are prepared again after a restart. Free some disk space."
        return warning
