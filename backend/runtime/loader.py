"""From settings to a house that can answer: models, tiers, documents and engine, loaded behind a status line."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Event, Thread

from tokenizers import Tokenizer

from backend.interface.backend import Status
from backend.runtime.settings import Settings
from backend.runtime.tasks import TaskRegistry
from engine.builder import ModelConfig, Models, build_engine, load_models, release_memory
from engine.cache.hit_stats import CacheStats
from engine.cache.tier import Tier
from engine.cache.tiers.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.engine import Engine
from engine.errors import Cancelled, LoadingFailed, ModelNotReady
from engine.model.loading.dtype import select_dtype
from engine.types import ChunkKV
from store.errors import KVScopeError, StoreFull
from store.ingest.chunker import ChunkConfig
from store.kv.blobs import DiskBlobs
from store.library.library import DocumentLibrary, LibraryConfig
from store.retrieval.minilm import MiniLM, MiniLMConfig
from store.retrieval.reranker import CrossEncoderReranker
from store.types import Document

GIB = 2**30
LAST_STEP_S = 10.0  # the longest step that cannot be stopped half way, such as reading the weights
log = logging.getLogger("kvscope")


@dataclass(frozen=True)
class Runtime:
    """Everything that is loaded. `blobs` is None where the disk takes no chunk KV."""

    models: Models
    documents: DocumentLibrary
    tiers: CacheHierarchy
    engine: Engine
    blobs: DiskBlobs | None

    def close(self) -> None:
        """Wait for the pass under way, then close the files; the caller has told the pass to stop."""
        self.engine.close(LAST_STEP_S)
        self.documents.close()
        self.tiers.close()
        if self.blobs is not None:
            self.blobs.close()


def model_config(settings: Settings) -> ModelConfig:
    """Return what the settings say about models."""
    return ModelConfig.of(settings.data / "models", settings)


def reason(error: Exception) -> str:
    """Return why loading failed, in a sentence, and log it."""
    if isinstance(error, KVScopeError):
        log.error("%s", error)
        return str(error)
    log.error("the models could not be loaded", exc_info=error)
    return f"Loading broke ({type(error).__name__}: {error}). The log says more."


class RuntimeLoader:
    """Loads once, in a thread of its own. Until then everything that needs the house gets a clear sentence.

    settled  called with the line about the models once the house stands, before the status says ready
    """

    def __init__(
        self, settings: Settings, work: TaskRegistry, settled: Callable[[str], None] = lambda line: None
    ) -> None:
        self.settings, self._work, self.settled = settings, work, settled
        self.status = Status(ready=False, line="Starting")
        self.runtime: Runtime | None = None
        self._served = CacheStats()  # of all houses: other settings do not begin the counting anew
        self._listed: list[Document] = []
        # Small models that stay loaded while other settings change.
        self._embedder = lru_cache(maxsize=1)(lambda dtype: MiniLM(MiniLMConfig(dtype=dtype)))
        self._reranker = lru_cache(maxsize=1)(lambda name: CrossEncoderReranker(name))
        self._thread = Thread(target=self._load, name="loading", daemon=True)

    def start(self) -> None:
        """Load in the background."""
        self._thread.start()

    @property
    def loading(self) -> bool:
        """Whether the first loading is under way, the reading of the samples included."""
        return self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until loading has ended, well or badly."""
        self._thread.join(timeout)

    def ready(self) -> Runtime:
        """Return the house. Raises ModelNotReady or LoadingFailed, with what the status says."""
        house, status = self.runtime, self.status  # another thread may take them away between two looks
        if status.failed:
            raise LoadingFailed(status.line)
        if house is None:
            raise ModelNotReady(f"{status.line}.")
        return house

    @contextmanager
    def borrow(self) -> Iterator[Runtime]:
        """Lend the house for a short call: whoever closes it waits for the call's end. Raises what `ready` raises."""
        closed = Event()
        with self._work.track(closed):
            house = self.ready()
            if closed.is_set():
                raise ModelNotReady("What is loaded is being closed.")
            yield house

    def tiers(self) -> tuple[Tier[ChunkKV], ...]:
        """Return the tiers that hold chunk KV; none until they are open."""
        house = self.runtime
        return () if house is None else house.tiers.tree.tiers

    def listed(self) -> list[Document]:
        """Return the documents; while the house is being built anew, those that it had."""
        with suppress(ModelNotReady, LoadingFailed), self.borrow() as house:
            self._listed = house.documents.documents()
        return self._listed

    def close(self) -> None:
        """End loading (the caller has closed the work), then close what is loaded."""
        if self._thread.is_alive():
            self._thread.join(LAST_STEP_S)
        self.status = Status(ready=False, line="Closing")  # open tabs go on asking until the server ends
        self.release()

    def say(self, status: Status) -> None:
        """Show another status line."""
        self.status = status

    def _load(self) -> None:
        try:
            line = self.open()
            self.settled(line)
            self.status = Status(ready=True, line=line)
        except Cancelled:
            self.status = Status(ready=False, line="Closed")
        except Exception as error:  # noqa: BLE001  the status line says it
            self.status = Status(ready=False, line=reason(error), failed=True)

    def open(self, models: Models | None = None) -> str:
        """Build the house that the settings describe; return the line about it. Raises whatever stands in the way.

        models  already loaded; without them the settings' own are loaded
        """
        config = model_config(self.settings)
        models = models or load_models(config, self._report)
        self._report("Opening the library", 0.95)
        self.runtime = self._build(models)
        finetuned = " with its reader" if config.adapter else ""
        return f"{models.primary.name}{finetuned}, {models.precision}"

    def release(self) -> None:
        """Close the house (the caller has stopped the work) and let go of its memory."""
        if self.runtime is None:
            return
        self._listed = self.runtime.documents.documents()
        house, self.runtime = self.runtime, None
        house.close()
        del house
        release_memory()

    def _build(self, models: Models) -> Runtime:
        with ExitStack() as undo:
            blobs = self._open_blobs()
            if blobs is not None:
                undo.callback(blobs.close)
            tiers = self._open_tiers(models, blobs)
            undo.callback(tiers.close)
            opened: list[DocumentLibrary] = []

            def documents(tokenizer: Tokenizer) -> DocumentLibrary:
                opened.append(self.open_documents(tokenizer))
                undo.callback(opened[0].close)
                return opened[0]

            engine = build_engine(models, documents, tiers, self.settings.data, self._served)
            undo.pop_all()
        return Runtime(models, opened[0], tiers, engine, blobs)

    def _open_blobs(self) -> DiskBlobs | None:
        try:
            return DiskBlobs(self.settings.data / "kv")
        except StoreFull as error:
            log.warning("chunk KV stays in memory only: %s", error)
            return None

    def _open_tiers(self, models: Models, blobs: DiskBlobs | None) -> CacheHierarchy:
        wanted = self.settings
        config = CacheHierarchyConfig(
            host_bytes=int(wanted.host_gib * GIB),
            disk_bytes=int(wanted.disk_gib * GIB),
            device_bytes=int(wanted.device_gib * GIB),
            policy=wanted.policy,
            bits=wanted.kv_bits,
        )
        return CacheHierarchy(config, blobs, models.primary.device)

    def open_documents(self, tokenizer: Tokenizer) -> DocumentLibrary:
        """Open the documents of the data folder; chunks are counted in the tokenizer's tokens."""
        chunking = ChunkConfig(self.settings.chunk_tokens, self.settings.chunk_overlap)
        reranker, name = None, self.settings.reranker
        if name == "off":
            self._reranker.cache_clear()
        else:
            self._report(f"Loading {Path(name).name}", 0.95)
            reranker = self._reranker(name)
        embedder, folder = self._embedder(select_dtype("cpu", self.settings.dtype)[1]), self.settings.data / "library"
        embedder.embed([embedder.ending("Is it loaded?")])  # now, not while the first question waits
        return DocumentLibrary(folder, tokenizer, embedder, LibraryConfig(chunking=chunking), reranker=reranker)

    def _report(self, said: str, share: float) -> None:
        if self._work.closing:
            raise Cancelled
        if self.status.line != said:
            log.info(said)
        self.status = Status(ready=False, line=said, share=share)
