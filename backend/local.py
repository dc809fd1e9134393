"""The backend on this machine: one data folder, its models and its documents."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import IO, TypeVar, cast

from backend.interface.backend import Status, TierUsage
from backend.interface.cache import KVServerUsage
from backend.interface.cluster import EngineCluster
from backend.interface.errors import BadSettings
from backend.interface.library import IngestProgress
from backend.runtime.loader import SHUTDOWN_TIMEOUT_S, RuntimeLoader, model_config
from backend.runtime.secrets import LIBRARY_KEY, Secrets
from backend.runtime.settings import Settings
from backend.runtime.tasks import TaskRegistry
from backend.services.cache import ChunkOwners, LocalCacheService, kv_server_usage
from backend.services.fidelity import IdleCalibration
from backend.services.library import LocalLibraryService
from backend.services.metrics import Metrics
from backend.services.models import LocalModelService
from backend.services.repairs import Repairs
from backend.services.shared_library import DeletionFollower
from backend.services.web_page import download
from engine.analysis.comparison import CompareRequest, Comparison
from engine.analysis.comparison_runner import compare
from engine.analysis.inspection import InspectionStep
from engine.analysis.inspection_runner import inspect
from engine.answer_server import AnswerServer, ask_server, method_info, server_budget
from engine.engine import Engine
from engine.errors import BadRequest, Cancelled
from engine.method import SERVER_METHOD, MethodInfo, server_note
from engine.prompt.retrieval import search
from engine.prompt.validate import validate
from engine.request import Answer, ContextBudget, Request
from engine.scheduler.worker_thread import run_in_thread
from engine.strategies import list_methods
from store.catalog.transfer import export_library
from store.errors import KVScopeError
from store.feedback import Feedback
from store.remote_library import LibraryServer
from store.types import Document, Hit

SETTINGS_CHANGED = "Stopped because the settings were changed. Ask again when the status is ready."
Item = TypeVar("Item")


class LocalBackend:
    """Models, documents and engine of one data folder, whose FolderLock the process must hold."""

    def __init__(
        self,
        settings: Settings,
        overrides: Mapping[str, str] | None = None,
        secrets: Secrets | None = None,
        cluster: EngineCluster | None = None,
    ) -> None:
        secrets = secrets or Secrets()
        if settings.library and not secrets.library_key:
            raise BadSettings(f"--library needs a key in {LIBRARY_KEY}.")
        self.tasks = TaskRegistry()
        self.loader = RuntimeLoader(settings, self.tasks, overrides or {}, secrets)
        self._chunk_owners = chunk_owners = ChunkOwners()
        self.library = LocalLibraryService(self.loader, self.tasks, chunk_owners)
        self._calibration = IdleCalibration(self.loader, self.tasks)
        self.models = LocalModelService(self.loader, self._calibration)
        self.cache = LocalCacheService(self.loader, chunk_owners)
        self.feedback = Feedback(settings.data)
        url, model, context = settings.answer_server, settings.answer_server_model, settings.answer_server_context
        self.answer_server = AnswerServer(url, model, secrets.answer_server_key, context) if url else None
        self._cluster = cluster
        self._follower = None
        if settings.library:
            self._follower = DeletionFollower(self.loader, chunk_owners, self.feedback, cluster)
        if cluster is not None:
            self.loader.on_passages_deleted = cluster.delete
        self._metrics = Metrics(self.tier_usage, self._kernels, self._kv_server)
        self._repairs = Repairs(self.loader, self.tasks)
        if settings.sample_docs:
            self.loader.on_ready = self.library.add_samples

    def start(self) -> None:
        self.loader.start()
        if self._cluster:
            self._cluster.start(self._engine)
        if self._follower:
            self._follower.start()
        if self.loader.settings.idle_calibration:
            self._calibration.start()

    def status(self) -> Status:
        status, server = self.loader.status, self.answer_server
        if not status.ready or status.progress is not None:
            return status
        if server is not None:
            status = replace(status, message=f"{status.message}; {server.model} on {server.host} answers")
        if self._cluster is not None:
            engines = ", ".join(self._cluster.engine_names()) or "none"
            status = replace(status, message=f"{status.message}; engines of the cluster: {engines}")
        return status

    def notices(self) -> list[str]:
        return [*self._repairs.notices(), *(self._cluster.refused.values() if self._cluster else ())]

    def methods(self) -> list[MethodInfo]:
        default = "cacheclip-trained" if model_config(self.loader.settings).token_selector_folder else "cacheclip"
        local = [replace(method, is_default=method.name == default) for method in list_methods()]
        server = self.answer_server
        return [*([method_info(server)] if server else []), *local]

    def documents(self) -> list[Document]:
        return self.loader.documents()

    def ingest(self, files: list[tuple[Path, str]], cancel: Event) -> Iterator[list[IngestProgress]]:
        return self.library.add(files, cancel)

    @property
    def outgoing_note(self) -> str:
        settings, notes = self.loader.settings, [server_note(self.methods())]
        if settings.library:
            notes.append("The library server keeps and processes the documents, and is sent the questions.")
        if settings.cluster:
            notes.append("Engines of a cluster answer: they are sent the question and the passages found for it.")
        if settings.chroma:
            notes.append("Vectors of the documents are sent to the Chroma server, with their ids.")
        if settings.kv_server:
            notes.append("Keys and values (KV) of passages are sent to the KV server, without their text.")
        where = "" if settings.library or not any(notes) else "Documents are processed on this machine."
        return " ".join(filter(None, [where, *notes]))

    @property
    def accepts_web_pages(self) -> bool:
        return bool(self.loader.settings.web_pages)

    def ingest_web_page(self, url: str, cancel: Event) -> Iterator[list[IngestProgress]]:
        if not self.accepts_web_pages:
            raise BadRequest("Adding web pages is switched off (--web-pages).")
        yield [IngestProgress(url, "waiting", 0, 1)]
        with TemporaryDirectory(prefix="kvscope-") as folder:
            try:
                with self.tasks.track(cancel):
                    page = download(url, Path(folder), self.loader.settings.limits, cancel)
            except Cancelled:
                yield [IngestProgress(url, "failed", 0, 1, "Stopped.")]
            except KVScopeError as error:
                yield [IngestProgress(url, "failed", 0, 1, str(error))]
            else:
                yield from self.ingest([page], cancel)

    def export(self, target: IO[bytes]) -> None:
        if not self.loader.settings.library:
            export_library(self.loader.settings.data, target)  # also while models are loaded, or cannot be
            return
        with self.loader.borrow() as runtime:
            target.writelines(cast(LibraryServer, runtime.documents).export())

    def delete(self, document_id: str) -> bool:
        with self.loader.borrow() as runtime:
            self.feedback.forget(document_id)  # first: if it cannot, nothing has changed
            documents, passages = runtime.documents, runtime.engine.passages
            with passages.track_deletions():
                # KV is deleted first: its keys are computed from the texts, which go with the document.
                texts = {chunk.passage for chunk in documents.chunks(document_id)}
                keys = [key for text in texts for key in passages.delete(text)]
                deleted = documents.delete(document_id)
                for text in {chunk.passage for chunk in deleted} - texts:
                    passages.delete(text)
                for key in keys:
                    runtime.tiers.tree.delete(key)  # a running question may have computed it again
                self._chunk_owners.discard(document_id)
                passages.delete_other_models()
            self.feedback.forget(document_id)  # an answer may have been rated in the meantime
        self.library.drop_unused_settings()  # of a collection that had only this document
        return bool(deleted)

    def has_pages(self, document_id: str) -> bool:
        with self.loader.borrow() as runtime:
            return runtime.documents.has_pages(document_id)

    def page_picture(self, chunk_id: str, page: int, quote: str) -> bytes | None:
        with self.loader.borrow() as runtime:
            return runtime.documents.page_picture(chunk_id, page, quote)

    def tier_usage(self) -> list[TierUsage]:
        return [TierUsage(tier.name, tier.size_bytes, tier.budget_bytes) for tier in self.loader.tiers()]

    def clear(self) -> None:
        with self.loader.borrow() as runtime:
            runtime.tiers.tree.clear()

    def budget(self, request: Request) -> ContextBudget:
        server = self._server_of(request)
        with self.loader.borrow() as runtime:
            engine = runtime.engine
            return engine.estimate_budget(request) if server is None else server_budget(engine, server, request)

    def ask(self, request: Request, cancel: Event) -> Iterator[Answer]:
        pending = "" if request.documents else self.library.pending_message()

        def with_notes(answer: Answer) -> Answer:
            shown = update(answer)  # a copy: the engine keeps changing its own answer
            if pending:
                shown.notes = (pending, *shown.notes)
            if shown.state == "stopped" and self.tasks.is_draining:
                shown.notes += (SETTINGS_CHANGED,)
            return shown

        server = self._server_of(request)

        def answers(engine: Engine) -> Iterator[Answer]:
            if server is not None:
                return ask_server(engine, server, request, cancel)
            return self._cluster.ask(engine, request, cancel) if self._cluster else engine.ask(request, cancel)

        with self._metrics.track() as update:
            yield from self._run(lambda engine: map(with_notes, answers(engine)), cancel)

    def _server_of(self, request: Request) -> AnswerServer | None:
        return self.answer_server if request.method == SERVER_METHOD else None

    def search(self, request: Request) -> list[Hit]:
        validate(request)
        (hits,) = self._run(lambda engine: iter([search(engine.finder, request)]), Event())
        return hits

    def inspect(self, request: Request, cancel: Event) -> Iterator[InspectionStep]:
        return self._run(lambda engine: inspect(engine, request, cancel), cancel)

    def compare(self, request: CompareRequest, cancel: Event) -> Iterator[Comparison]:
        return self._run(lambda engine: compare(engine, request, cancel), cancel)

    def _engine(self) -> Engine | None:
        runtime = self.loader.runtime
        return None if runtime is None else runtime.engine

    def _kernels(self) -> tuple[str, str]:
        runtime = self.loader.runtime
        return ("", "") if runtime is None else (runtime.models.attention, runtime.models.decoding)

    def _kv_server(self) -> KVServerUsage | None:
        runtime = self.loader.runtime
        return None if runtime is None else kv_server_usage(runtime)

    def metrics_text(self) -> str:
        return self._metrics.render()

    def close(self) -> None:
        """Cancel all tasks and close all files. Further calls do nothing."""
        if not self.tasks.is_closing:
            self._calibration.close()
            if self._cluster:
                self._cluster.close()
            if self._follower:
                self._follower.close()
            self.tasks.close(SHUTDOWN_TIMEOUT_S)
            self.loader.close()

    def _run(self, generate: Callable[[Engine], Iterator[Item]], cancel: Event) -> Iterator[Item]:
        """Run a generator on the engine in a thread of its own, as a task that ingestion gives way to."""
        with self.tasks.track_question(cancel):
            runtime = self.loader.ready()
            self._calibration.of(runtime)  # the engine gets what was measured before
            yield from run_in_thread(lambda: generate(runtime.engine), cancel)
