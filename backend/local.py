"""The backend on this machine: one data folder, its models and its documents."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event

from backend.interface.backend import Status, TierUsage
from backend.interface.library import IngestProgress
from backend.runtime.loader import SHUTDOWN_TIMEOUT_S, RuntimeLoader, model_config
from backend.runtime.settings import Settings
from backend.runtime.tasks import TaskRegistry
from backend.services.analysis import LocalAnalysisService
from backend.services.cache import LocalCacheService
from backend.services.ingest import IngestService
from backend.services.kv_owners import ChunkOwners
from backend.services.library import LocalLibraryService
from backend.services.metrics import Metrics
from backend.services.models import LocalModelService
from engine.method import MethodInfo
from engine.request import Answer, ContextBudget, Request
from engine.scheduler.worker_thread import run_in_thread
from engine.strategies import list_methods
from store.types import Document

SETTINGS_CHANGED = "Stopped because the settings were changed. Ask again when the status is ready."


class LocalBackend:
    """Models, documents and engine of one data folder; see `backend.interface.backend`.

    The process must hold the folder's FolderLock and create only one instance.

    overrides  the flag or variable that sets a setting, by the setting's name; such settings cannot be changed
    """

    def __init__(self, settings: Settings, overrides: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._tasks = TaskRegistry()
        self.loader = RuntimeLoader(settings, self._tasks, self._add_samples)
        self._ingest = IngestService(self.loader, self._tasks)
        self._chunk_owners = ChunkOwners()
        self.library = LocalLibraryService(self.loader, self._tasks, self._ingest, self._chunk_owners)
        self.models = LocalModelService(self.loader, self._tasks, overrides or {})
        set_budgets = self.models.reloader.set_budgets
        self.cache = LocalCacheService(self.loader, settings.data / "kv", set_budgets, self._chunk_owners)
        self.inspection = self.comparison = LocalAnalysisService(self.loader, self._tasks)
        self.metrics = Metrics(self.tier_usage)

    def start(self) -> None:
        """Start loading the models in the background."""
        self.loader.start()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until loading has finished or failed."""
        self.loader.wait(timeout)

    def status(self) -> Status:
        return self.loader.status

    def methods(self) -> list[MethodInfo]:
        default = "cacheclip-trained" if model_config(self.loader.settings).token_selector_folder else "cacheclip"
        return [replace(method, is_default=method.name == default) for method in list_methods()]

    def documents(self) -> list[Document]:
        return self.loader.documents()

    def ingest(self, files: list[tuple[Path, str]], cancel: Event) -> Iterator[list[IngestProgress]]:
        return self._ingest.add(files, cancel)

    def delete(self, document_id: str) -> None:
        with self.loader.borrow() as runtime:
            library, passages = runtime.library, runtime.engine.passages
            with passages.track_deletions():
                # KV is deleted first: its keys are computed from the texts, which go with the document.
                texts = {chunk.text for chunk in library.chunks(document_id)}
                keys = [key for text in texts for key in passages.delete(text)]
                for text in {chunk.text for chunk in library.delete(document_id)} - texts:
                    passages.delete(text)
                for key in keys:
                    runtime.tiers.tree.delete(key)  # a running question may have computed it again
                self._chunk_owners.discard(document_id)
                passages.delete_other_models()

    def tier_usage(self) -> list[TierUsage]:
        return [TierUsage(tier.name, tier.size_bytes, tier.budget_bytes) for tier in self.loader.tiers()]

    def clear(self) -> None:
        with self.loader.borrow() as runtime:
            runtime.tiers.tree.clear()

    def budget(self, request: Request) -> ContextBudget:
        with self.loader.borrow() as runtime:
            return runtime.engine.estimate_budget(request)

    def ask(self, request: Request, cancel: Event) -> Iterator[Answer]:
        pending = "" if request.documents else self._ingest.pending_message()

        def with_notes(answer: Answer) -> Answer:
            shown = tracked.update(answer)  # a copy: the engine keeps changing its own answer
            if pending:
                shown.notes = (pending, *shown.notes)
            if shown.state == "stopped" and self._tasks.is_draining:
                shown.notes += (SETTINGS_CHANGED,)
            return shown

        with self.metrics.track() as tracked, self._tasks.track(cancel):
            engine = self.loader.ready().engine
            yield from run_in_thread(lambda: map(with_notes, engine.ask(request, cancel)), cancel)

    def close(self) -> None:
        """Cancel all tasks and close all files. Further calls do nothing."""
        if not self._tasks.is_closing:
            self._tasks.close(SHUTDOWN_TIMEOUT_S)
            self.models.reloader.wait(SHUTDOWN_TIMEOUT_S)
            self.loader.close()

    def _add_samples(self, message: str) -> None:
        if self._settings.sample_docs:
            self._ingest.add_samples(message, self._settings.data / "samples-added")
