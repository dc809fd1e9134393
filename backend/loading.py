"""From settings to a house that can answer: models, tiers, documents and engine, loaded behind a status line."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from tokenizers import Tokenizer

from backend.work import Work
from engine.errors import Cancelled, LoadingFailed, ModelNotReady
from engine.pipeline import Engine
from engine.startup import ModelConfig, Models, build_engine, load_models
from engine.tree.tiers import Tiers, TiersConfig
from settings import Settings
from store.blobs import DiskBlobs
from store.chunk import ChunkConfig
from store.errors import KVScopeError, StoreFull
from store.library import DocumentLibrary, LibraryConfig
from store.minilm import MiniLM
from store.rerank import CrossEncoderReranker
from ui.backend import Status

GIB = 2**30
LAST_STEP_S = 10.0  # the longest step that cannot be stopped half way, such as reading the weights
log = logging.getLogger("kvscope")


@dataclass(frozen=True)
class House:
    """Everything that is loaded. `blobs` is None where the disk takes no chunk KV."""

    models: Models
    documents: DocumentLibrary
    tiers: Tiers
    engine: Engine
    blobs: DiskBlobs | None

    def close(self) -> None:
        """Wait for the pass under way, then close the files; the caller has told the pass to stop."""
        self.engine.close(LAST_STEP_S)
        self.documents.close()
        self.tiers.close()
        if self.blobs is not None:
            self.blobs.close()


class Loader:
    """Loads once, in a thread of its own. Until then everything that needs the house gets a clear sentence.

    settled  called with the line about the models once the house stands, before the status says ready
    """

    def __init__(self, settings: Settings, work: Work, settled: Callable[[str], None] = lambda line: None) -> None:
        self._settings, self._work, self._settled = settings, work, settled
        self.status = Status(ready=False, line="Starting")
        self.house: House | None = None
        self._thread = Thread(target=self._load, name="loading", daemon=True)

    def start(self) -> None:
        """Load in the background."""
        self._thread.start()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until loading has ended, well or badly."""
        self._thread.join(timeout)

    def ready(self) -> House:
        """Return the house. Raises ModelNotReady or LoadingFailed, with what the status says."""
        if self.status.failed:
            raise LoadingFailed(self.status.line)
        if self.house is None:
            raise ModelNotReady(f"{self.status.line}.")
        return self.house

    def close(self) -> None:
        """End loading (the caller has closed the work), then close what is loaded."""
        if self._thread.is_alive():
            self._thread.join(LAST_STEP_S)
        if self.house is not None:
            self.house.close()

    def say(self, status: Status) -> None:
        """Show another status line."""
        self.status = status

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
            self.house = self._build(models)
            finetuned = " with its reader" if config.adapter else ""
            line = f"{models.primary.name}{finetuned}, {models.precision}"
            self._settled(line)
            self.status = Status(ready=True, line=line)
        except Cancelled:
            self.status = Status(ready=False, line="Closed")
        except KVScopeError as error:
            log.error("%s", error)
            self.status = Status(ready=False, line=str(error), failed=True)
        except Exception as error:
            log.exception("the models could not be loaded")
            said = f"Loading broke ({type(error).__name__}: {error}). The log says more."
            self.status = Status(ready=False, line=said, failed=True)

    def _build(self, models: Models) -> House:
        blobs = self._open_blobs()
        tiers = self._open_tiers(models, blobs)
        opened: list[DocumentLibrary] = []

        def documents(tokenizer: Tokenizer) -> DocumentLibrary:
            opened.append(self.open_documents(tokenizer))
            return opened[0]

        engine = build_engine(models, documents, tiers, self._settings.data)
        return House(models, opened[0], tiers, engine, blobs)

    def _open_blobs(self) -> DiskBlobs | None:
        try:
            return DiskBlobs(self._settings.data / "kv")
        except StoreFull as error:
            log.warning("chunk KV stays in memory only: %s", error)
            return None

    def _open_tiers(self, models: Models, blobs: DiskBlobs | None) -> Tiers:
        wanted = self._settings
        config = TiersConfig(
            host_bytes=int(wanted.host_gib * GIB),
            disk_bytes=int(wanted.disk_gib * GIB),
            device_bytes=int(wanted.device_gib * GIB),
            policy=wanted.policy,
            bits=wanted.kv_bits,
        )
        return Tiers(config, blobs, models.primary.device)

    def open_documents(self, tokenizer: Tokenizer) -> DocumentLibrary:
        """Open the documents of the data folder; chunks are counted in the tokenizer's tokens."""
        chunking = ChunkConfig(self._settings.chunk_tokens, self._settings.chunk_overlap)
        reranker, name = None, self._settings.reranker
        if name != "off":
            self._report(f"Loading {Path(name).name}", 0.95)
            reranker = CrossEncoderReranker(name)
        folder = self._settings.data / "library"
        return DocumentLibrary(folder, tokenizer, MiniLM(), LibraryConfig(chunking=chunking), reranker=reranker)

    def _report(self, said: str, share: float) -> None:
        if self._work.closing:
            raise Cancelled
        if self.status.line != said:
            log.info(said)
        self.status = Status(ready=False, line=said, share=share)
