"""Loads models, library, cache tiers and engine in the background, and reports the progress as a status."""

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
from store.library.library import DocumentLibrary
from store.retrieval.minilm import MiniLM
from store.retrieval.reranker import CrossEncoderReranker
from store.types import Document

GIB = 2**30
SHUTDOWN_TIMEOUT_S = 10.0  # for the longest step that cannot be cancelled, such as reading weights
log = logging.getLogger("kvscope")


@dataclass(frozen=True)
class Runtime:
    """Everything that is loaded. `blobs` is None if chunk KV cannot be stored on disk."""

    models: Models
    library: DocumentLibrary
    tiers: CacheHierarchy
    engine: Engine
    blobs: DiskBlobs | None

    def close(self) -> None:
        """Wait for the running pass, which must have been cancelled, then close all files."""
        self.engine.close(SHUTDOWN_TIMEOUT_S)
        self.library.close()
        self.tiers.close()
        if self.blobs is not None:
            self.blobs.close()


def model_config(settings: Settings) -> ModelConfig:
    """Return the part of the settings that concerns models."""
    return ModelConfig(
        folder=settings.data / "models",
        model=settings.model,
        auxiliary_model=settings.auxiliary_model,
        device=settings.device,
        dtype=settings.dtype,
        lora_adapter=settings.lora_adapter,
        span_scorer=settings.span_scorer,
        token_selector=settings.token_selector,
    )


def loading_error(error: Exception) -> str:
    """Return the message to show for an error during loading, and log it."""
    if isinstance(error, KVScopeError):
        log.error("%s", error)
        return str(error)
    log.error("the models could not be loaded", exc_info=error)
    return f"Loading failed ({type(error).__name__}: {error}). See the log for details."


class RuntimeLoader:
    """Builds the runtime in a background thread, and again after a change of settings.

    on_ready  called with the status message after the first loading, before the status is ready
    """

    def __init__(
        self, settings: Settings, tasks: TaskRegistry, on_ready: Callable[[str], None] = lambda message: None
    ) -> None:
        self.settings = settings
        self.on_ready = on_ready
        self.status = Status(ready=False, message="Starting")
        self.runtime: Runtime | None = None
        self._tasks = tasks
        self._stats = CacheStats()  # survives changes of settings
        self._last_documents: list[Document] = []
        # Small models that stay loaded while other settings change.
        self._embedder = lru_cache(maxsize=1)(lambda dtype: MiniLM(dtype))
        self._reranker = lru_cache(maxsize=1)(lambda name: CrossEncoderReranker(name))
        self._thread = Thread(target=self._load, name="loading", daemon=True)

    def start(self) -> None:
        """Start loading in the background."""
        self._thread.start()

    @property
    def is_loading(self) -> bool:
        """Whether the first loading is running, including adding the sample documents."""
        return self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the first loading has finished or failed."""
        self._thread.join(timeout)

    def ready(self) -> Runtime:
        """Return the runtime. Raises ModelNotReady or LoadingFailed with the status message."""
        runtime, status = self.runtime, self.status  # read once: other threads replace them
        if status.failed:
            raise LoadingFailed(status.message)
        if runtime is None:
            raise ModelNotReady(f"{status.message}.")
        return runtime

    @contextmanager
    def borrow(self) -> Iterator[Runtime]:
        """Return the runtime for a short call; it is not closed before the call ends. Raises what `ready` raises."""
        cancelled = Event()
        with self._tasks.track(cancelled):
            runtime = self.ready()
            if cancelled.is_set():
                raise ModelNotReady("KVScope is reloading or closing.")
            yield runtime

    def tiers(self) -> tuple[Tier[ChunkKV], ...]:
        """Return the cache tiers; empty until they are open."""
        runtime = self.runtime
        return () if runtime is None else runtime.tiers.tree.tiers

    def documents(self) -> list[Document]:
        """Return the documents; during a reload those from before it."""
        with suppress(ModelNotReady, LoadingFailed), self.borrow() as runtime:
            self._last_documents = runtime.library.documents()
        return self._last_documents

    def close(self) -> None:
        """Wait for loading to stop and close the runtime. All tasks must have been cancelled."""
        if self._thread.is_alive():
            self._thread.join(SHUTDOWN_TIMEOUT_S)
        self.status = Status(ready=False, message="Closing")  # open tabs poll it until the server ends
        self.release()

    def _load(self) -> None:
        try:
            message = self.open()
            self.on_ready(message)
            self.status = Status(ready=True, message=message)
        except Cancelled:
            self.status = Status(ready=False, message="Closed")
        except Exception as error:  # noqa: BLE001  shown as status
            self.status = Status(ready=False, message=loading_error(error), failed=True)

    def open(self, models: Models | None = None) -> str:
        """Build the runtime for the current settings and return its status message.

        models  loaded models to use; by default they are loaded
        """
        config = model_config(self.settings)
        models = models or load_models(config, self._report)
        self._report("Opening the library", 0.95)
        self.runtime = self._build(models)
        adapter = " with LoRA adapter" if config.lora_folder else ""
        return f"{models.primary.name}{adapter}, {models.precision}"

    def release(self) -> None:
        """Close the runtime and free its memory. All tasks must have been cancelled."""
        if self.runtime is None:
            return
        self._last_documents = self.runtime.library.documents()
        runtime, self.runtime = self.runtime, None
        runtime.close()
        del runtime
        release_memory()

    def _build(self, models: Models) -> Runtime:
        with ExitStack() as undo:
            blobs = self._open_blobs()
            if blobs is not None:
                undo.callback(blobs.close)
            tiers = self._open_tiers(models, blobs)
            undo.callback(tiers.close)
            libraries: list[DocumentLibrary] = []

            def open_finder(tokenizer: Tokenizer) -> DocumentLibrary:
                libraries.append(self.open_library(tokenizer))
                undo.callback(libraries[0].close)
                return libraries[0]

            engine = build_engine(models, open_finder, tiers, self.settings.data, self._stats)
            undo.pop_all()
        return Runtime(models, libraries[0], tiers, engine, blobs)

    def _open_blobs(self) -> DiskBlobs | None:
        try:
            return DiskBlobs(self.settings.data / "kv")
        except StoreFull as error:
            log.warning("chunk KV stays in memory only: %s", error)
            return None

    def _open_tiers(self, models: Models, blobs: DiskBlobs | None) -> CacheHierarchy:
        config = CacheHierarchyConfig(
            host_bytes=int(self.settings.cpu_cache_gib * GIB),
            disk_bytes=int(self.settings.disk_cache_gib * GIB),
            device_bytes=int(self.settings.gpu_cache_gib * GIB),
            policy=self.settings.eviction_policy,
            bits=self.settings.disk_kv_bits,
        )
        return CacheHierarchy(config, blobs, models.primary.device)

    def open_library(self, tokenizer: Tokenizer) -> DocumentLibrary:
        """Open the library in the data folder; chunk sizes are counted with `tokenizer`."""
        chunking = ChunkConfig(self.settings.chunk_size, self.settings.chunk_overlap)
        reranker, name = None, self.settings.reranker
        if name == "off":
            self._reranker.cache_clear()
        else:
            self._report(f"Loading {Path(name).name}", 0.95)
            reranker = self._reranker(name)
        embedder = self._embedder(select_dtype("cpu", self.settings.dtype)[1])
        embedder.embed([embedder.truncate_left("Warm up")])  # load it now, not during the first question
        return DocumentLibrary(self.settings.data / "library", tokenizer, embedder, chunking, reranker)

    def _report(self, message: str, progress: float) -> None:
        if self._tasks.is_closing:
            raise Cancelled
        if self.status.message != message:
            log.info(message)
        self.status = Status(ready=False, message=message, progress=progress)
