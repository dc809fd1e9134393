"""Loads models, library, cache tiers and engine, and changes the settings of a running backend.

Downloads and configuration checks run first, while the present models still answer. Only then are the running tasks
cancelled and the runtime closed and rebuilt, in this order, so that two models need not fit into memory at once. If
that fails, the previous runtime is rebuilt. New budgets alone are applied to the open tiers at once.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from threading import Event, RLock, Thread
from time import sleep
from typing import cast

import torch
from tokenizers import Tokenizer

from backend.interface.backend import Status
from backend.runtime.secrets import Secrets
from backend.runtime.settings import Settings, save_preferences
from backend.runtime.tasks import TaskRegistry
from engine.builder import ModelConfig, Models, build_engine, fetch_models, load_models, release_memory
from engine.cache.admin import CacheAdmin, EvictionResult
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.cache.hit_stats import CacheStats
from engine.cache.tier import Tier
from engine.engine import Engine
from engine.errors import BadRequest, Cancelled, LoadingFailed, ModelNotReady
from engine.model.loading.load import select_dtype
from engine.types import ChunkKV
from store.document_library import DocumentLibrary
from store.errors import KVScopeError, LibraryUnavailable, StoreFull, VectorsUnavailable
from store.ingest.chunker import ChunkConfig
from store.kv.blobs import DiskBlobs
from store.library import Library
from store.remote_library import LibraryServer, connect
from store.retrieval.embedding_model import EmbeddingModel, SentenceEmbedder
from store.retrieval.embedding_model import download as download_embedding_model
from store.retrieval.minilm import MiniLM
from store.retrieval.reranker import CrossEncoderReranker
from store.retrieval.reranker import download as download_reranker
from store.types import Document, SharedBlobStore

GIB = 2**30
SHUTDOWN_TIMEOUT_S = 10.0  # for the longest step that cannot be cancelled, such as reading weights
MODEL_SETTINGS = {field.name for field in fields(ModelConfig)} - {"folder"}
BUDGET_SETTINGS = {"device": "gpu_cache_gib", "host": "cpu_cache_gib", "disk": "disk_cache_gib"}  # by tier
SERVER_RETRY_S = 1.0
RELOADING = "reloading"  # name of the thread that changes the settings
log = logging.getLogger("kvscope")


@dataclass(frozen=True)
class Runtime:
    models: Models
    documents: Library
    tiers: CacheHierarchy
    engine: Engine
    blobs: DiskBlobs | None  # None if chunk KV cannot be stored on disk
    files: ExitStack  # closes library, tiers and blobs


def model_config(settings: Settings) -> ModelConfig:
    """Return the part of the settings that concerns models."""
    return ModelConfig(settings.data / "models", **settings.model_dump(include=MODEL_SETTINGS))


class RuntimeLoader:
    """The settings of a backend and what is loaded for them; loads and reloads in a background thread."""

    def __init__(
        self, settings: Settings, tasks: TaskRegistry, overrides: Mapping[str, str], secrets: Secrets | None = None
    ) -> None:
        self.settings = settings
        self.overrides = overrides  # by setting: the flag or variable that sets it, so that it cannot be changed
        self.on_open: Callable[[], None] = lambda: None  # after each loading; an error is logged
        self.on_passages_deleted: Callable[[Sequence[str]], None] | None = None  # takes the chunk keys
        self.on_ready: Callable[[str], None] = lambda message: None  # after the first loading; takes the status message
        self.status = Status(ready=False, message="Starting")
        self.runtime: Runtime | None = None
        self.is_downloading = False  # for a change of settings
        self.error = ""  # why the latest change failed, and which settings are in use now
        self._tasks = tasks
        self._secrets = secrets or Secrets()
        self._thread = Thread()
        self._lock = RLock()  # one change at a time
        self._download_cancelled = Event()
        self._stats = CacheStats()  # survives changes of settings
        self._last_documents: list[Document] = []
        # Small models that stay loaded while other settings change.
        self._embedder = lru_cache(maxsize=1)(_load_embedder)
        self._reranker = lru_cache(maxsize=1)(CrossEncoderReranker)

    @property
    def is_reloading(self) -> bool:
        return self._thread.is_alive() and self._thread.name == RELOADING

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
        with self._tasks.track(cancelled, is_brief=True):
            runtime = self.ready()
            if cancelled.is_set():
                raise ModelNotReady("KVScope is reloading or closing.")
            yield runtime

    def tiers(self) -> tuple[Tier[ChunkKV], ...]:
        """Return the cache tiers; empty until they are open."""
        runtime = self.runtime
        return () if runtime is None else runtime.tiers.tree.tiers

    def documents(self) -> list[Document]:
        """Return the documents; during a reload, or while a library server does not answer, those from before it."""
        with suppress(ModelNotReady, LoadingFailed, LibraryUnavailable), self.borrow() as runtime:
            self._last_documents = runtime.documents.documents()
        return self._last_documents

    def start(self) -> None:
        """Start to load everything for the first time; errors become the status."""
        self._thread = Thread(target=self._load, args=[self.open], name="loading", daemon=True)
        self._thread.start()

    def apply(self, new: Settings) -> None:
        """Start to apply settings. If only budgets differ, they are in use when this returns.

        Raises BadRequest if nothing changes, ModelNotReady during another change, and what `set_budgets` raises.
        """
        with self._lock:
            values, old_values = new.mutable_values(), self.settings.mutable_values()
            changed = {name for name in values if values[name] != old_values[name]}
            self._check_not_overridden(changed)
            if self._thread.is_alive():
                raise ModelNotReady(f"{self.status.message}.")
            if new == self.settings and self.runtime is not None:
                raise BadRequest("These settings are already in use. Change a setting first.")
            self.error = ""
            tiers = {BUDGET_SETTINGS[tier.name]: tier.name for tier in self.tiers()}
            if changed and changed <= tiers.keys():
                self.set_budgets({tiers[name]: int(values[name] * GIB) for name in changed})
            else:
                self._download_cancelled.clear()
                self._thread = Thread(target=self._reload, args=[new], name=RELOADING, daemon=True)
                self._thread.start()

    def set_budgets(self, budgets: Mapping[str, int]) -> EvictionResult:
        """Set tier budgets in bytes, evict down to them, and save them. If it raises, nothing has changed.

        Raises ModelNotReady, BadRequest for overridden settings, and what `CacheAdmin.set_budgets` raises.
        """
        with self._lock:
            if self.is_reloading:
                raise ModelNotReady(f"{self.status.message}.")
            values = {BUDGET_SETTINGS[tier]: round(size_bytes / GIB, 3) for tier, size_bytes in budgets.items()}
            self._check_not_overridden(values)
            evicted = CacheAdmin(self.ready().tiers.tree).set_budgets(budgets)
            self.settings = self.settings.updated(values)
            self._save_settings()
            return evicted

    def cancel_download(self) -> None:
        """Cancel the download of a running change; no effect after it."""
        self._download_cancelled.set()

    def wait(self, timeout: float) -> None:
        if self._thread.is_alive():
            self._thread.join(timeout)

    def close(self) -> None:
        """Wait for loading to stop and close the runtime. All tasks must have been cancelled."""
        self.wait(SHUTDOWN_TIMEOUT_S)
        self.status = Status(ready=False, message="Closing")  # open tabs poll it until the server ends
        self.release()

    def _check_not_overridden(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            if flag := self.overrides.get(name):
                raise BadRequest(f"This setting is set by {flag}. Restart KVScope without it to change it here.")

    def _save_settings(self) -> None:
        try:
            save_preferences(self.settings, self.overrides)
        except KVScopeError as error:
            log.error("%s", error)
            self.error = f"The settings are in use, but could not be saved for the next start. {error}"

    def _load(self, load: Callable[[], str]) -> None:
        """Build the runtime; its status message or an error becomes the status."""
        is_first = self.runtime is None
        try:
            message = load()
            try:
                self.on_open()
            except Exception:  # the models are loaded
                log.exception("the check of the opened library failed")
            if is_first:
                self.on_ready(message)
            self.status = Status(ready=True, message=message)
        except Cancelled:
            self.status = Status(ready=False, message="Closed")
        except Exception as error:  # noqa: BLE001  shown as status
            self.error = _loading_error(error)
            self.status = Status(ready=False, message=self.error, failed=True)

    def _reload(self, new: Settings) -> None:
        old_status = self.status
        if self.runtime is None or _all_models(new) != _all_models(self.settings):
            self.error = self._download(new)
        if self.error:
            self.status = old_status
        else:
            self.status = Status(ready=False, message="Unloading", progress=0.78)
            self._load(lambda: self._replace_runtime(new))

    def _download(self, new: Settings) -> str:
        """Download the models that are not on this machine; return an error message, or an empty string."""

        def report(message: str, progress: float) -> None:
            if self._download_cancelled.is_set():
                raise Cancelled
            self._report(message, progress)

        self.is_downloading = True
        try:
            fetch_models(model_config(new), report)
            if new.embedding_model not in ("auto", self.settings.embedding_model):
                report(f"Downloading {Path(new.embedding_model).name}", 0.74)
                download_embedding_model(new.embedding_model)
            if new.reranker not in ("off", self.settings.reranker):
                report(f"Downloading {Path(new.reranker).name}", 0.76)
                download_reranker(new.reranker)
        except Cancelled:
            return "The download was stopped; the next attempt resumes it."
        except Exception as error:  # noqa: BLE001  shown to the user
            return f"{_loading_error(error)} Nothing was changed."
        finally:
            self.is_downloading = False
        return ""

    def _replace_runtime(self, new: Settings) -> str:
        """Close the runtime and build one for the new settings, or the previous one; return the status message."""
        previous, attempts, models = self.settings, [new], None
        if self.runtime is not None:
            attempts = [new, previous]
            models = self.runtime.models if model_config(new) == model_config(previous) else None
        errors: list[str] = []
        with self._tasks.drain(SHUTDOWN_TIMEOUT_S):
            for settings in attempts:
                self.settings = settings
                try:
                    self.release()
                    message = self.open(models)
                except Cancelled:
                    raise
                except Exception as error:  # noqa: BLE001  shown to the user
                    errors.append(_loading_error(error))
                else:
                    if errors:
                        self.error = f"{errors[0]} The previous settings are in use again."
                    else:
                        self._save_settings()
                    return message
                release_memory()  # after the except clause: the error no longer references partly loaded models
        self.settings = previous
        raise KVScopeError(" The previous settings cannot be restored either: ".join(errors))

    def open(self, models: Models | None = None) -> str:
        """Build the runtime for the current settings, with `models` if given; return its status message."""
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
        with suppress(LibraryUnavailable):
            self._last_documents = self.runtime.documents.documents()
        runtime, self.runtime = self.runtime, None
        runtime.engine.scheduler.close(SHUTDOWN_TIMEOUT_S)  # waits for the pass that is ending
        runtime.files.close()
        del runtime
        release_memory()

    def _build(self, models: Models) -> Runtime:
        settings = self.settings
        with ExitStack() as files:
            blobs: DiskBlobs | None = None
            try:
                blobs = files.enter_context(closing(DiskBlobs(settings.data / "kv")))
            except StoreFull as error:
                log.warning("chunk KV stays in memory only: %s", error)
            config = CacheHierarchyConfig(
                host_bytes=int(settings.cpu_cache_gib * GIB),
                disk_bytes=int(settings.disk_cache_gib * GIB),
                device_bytes=int(settings.gpu_cache_gib * GIB),
                policy=settings.eviction_policy,
                bits=settings.disk_kv_bits,
                remote_bits=settings.kv_server_bits,
            )
            tiers = files.enter_context(
                closing(CacheHierarchy(config, blobs, models.primary.device, self._kv_server()))
            )

            def open_library(tokenizer: Tokenizer) -> Library:
                is_remote = bool(settings.library)
                library = self._connect_library() if is_remote else self.open_library(tokenizer)
                return files.enter_context(closing(library))

            engine = build_engine(models, open_library, tiers, settings.data, self._stats)
            engine.passages.on_deleted = self.on_passages_deleted
            return Runtime(models, cast(Library, engine.finder), tiers, engine, blobs, files.pop_all())

    def _kv_server(self) -> SharedBlobStore | None:
        if not self.settings.kv_server:
            return None
        from store.kv.kv_server import KVServer  # noqa: PLC0415  redis-py is optional

        return KVServer(self.settings.kv_server, self._secrets.kv_server_password)

    def _connect_library(self) -> LibraryServer:
        """Connect to the library server, as soon as there is one."""
        while True:
            try:
                library = connect(self.settings.library, self._secrets.library_key)
                chunking, self._last_documents = library.info().chunking, library.documents()
            except LibraryUnavailable as error:
                self._report(f"Waiting for the library. {error}", 0.95)
                sleep(SERVER_RETRY_S)
            else:
                values = {"chunk_size": chunking.tokens, "chunk_overlap": chunking.overlap}
                self.settings = self.settings.updated(values)  # the library's are shown
                return library

    def open_library(self, tokenizer: Tokenizer, kind: type[DocumentLibrary] = DocumentLibrary) -> DocumentLibrary:
        """Open the library in the data folder; chunk sizes are counted with `tokenizer`."""
        chunking = ChunkConfig(self.settings.chunk_size, self.settings.chunk_overlap)
        reranker, name = None, self.settings.reranker
        if name == "off":
            self._reranker.cache_clear()
        else:
            self._report(f"Loading {Path(name).name}", 0.95)
            reranker = self._reranker(name)
        if self.settings.embedding_model != "auto":
            self._report(f"Loading {Path(self.settings.embedding_model).name}", 0.95)
        embedder = self._embedder(self.settings.embedding_model, select_dtype("cpu", self.settings.dtype)[1])
        embedder.embed([embedder.truncate_left("Warm up")])  # load it now, not during the first question
        folder, limits = self.settings.data / "library", self.settings.limits
        while True:
            try:
                return kind(folder, tokenizer, embedder, chunking, reranker, limits, self.settings.chroma)
            except VectorsUnavailable as error:
                self._report(f"Waiting for Chroma. {error}", 0.95)
                sleep(SERVER_RETRY_S)

    def _report(self, message: str, progress: float) -> None:
        """Show the progress of loading, or of a download, during which the present models still answer."""
        if self._tasks.is_closing:
            raise Cancelled
        if self.status.message != message:
            log.info(message)
        self.status = Status(ready=self.runtime is not None, message=message, progress=progress)


def _load_embedder(name: str, dtype: torch.dtype) -> SentenceEmbedder:
    return MiniLM(dtype) if name == "auto" else EmbeddingModel(name, dtype)


def _all_models(settings: Settings) -> tuple[object, ...]:
    return model_config(settings), settings.embedding_model, settings.reranker


def _loading_error(error: Exception) -> str:
    """Return the message to show for an error during loading, and log it."""
    if isinstance(error, KVScopeError):
        log.error("%s", error)
        return str(error)
    log.error("the models could not be loaded", exc_info=error)
    return f"Loading failed ({type(error).__name__}: {error}). See the log for details."
