"""The page's backend: everything it asks for before the models are there is a clear sentence, not a wait."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event

from backend.interface.backend import Status, TierUsage
from backend.interface.inspection import InspectService
from backend.interface.library import IngestProgress
from backend.runtime.loader import LAST_STEP_S, RuntimeLoader, model_config
from backend.runtime.settings import Settings
from backend.runtime.tasks import TaskRegistry
from backend.services.cache import LocalCacheService
from backend.services.comparison import LocalCompareService
from backend.services.ingest import IngestService
from backend.services.inspection import LocalInspectService
from backend.services.kv_owners import ChunkOwners
from backend.services.library import LocalLibraryService
from backend.services.metrics import Metrics
from backend.services.models import LocalModelService
from engine.method import MethodInfo
from engine.request import Answer, ContextBudget, Request
from engine.scheduler.worker_thread import run_in_thread
from engine.strategies import methods
from store.types import Document

CHANGED = "Stopped: the settings were changed. Ask again once the status says ready."


class LocalBackend:
    """Models, documents and engine of one data folder (hold its FolderLock); one object a process.

    fixed  choices that a flag or a variable has made, by name: the page cannot change them
    """

    def __init__(self, settings: Settings, fixed: Mapping[str, str] | None = None) -> None:
        self._settings, self._work = settings, TaskRegistry()
        self.loader = RuntimeLoader(settings, self._work, self._settled)
        self._adding = IngestService(self.loader, self._work)
        self._filed = ChunkOwners()
        self.library = LocalLibraryService(self.loader, self._work, self._adding, self._filed)
        self.models = LocalModelService(self.loader, self._work, fixed or {})
        self.cache = LocalCacheService(self.loader, settings.data / "kv", self.models.reloader.rebudget, self._filed)
        self.inspection: InspectService = LocalInspectService(self.loader, self._work)
        self.metrics = Metrics(self.tier_usage)
        self.comparison = LocalCompareService(self.loader, self._work)

    def start(self) -> None:
        """Load the models in the background."""
        self.loader.start()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until loading has ended, well or badly."""
        self.loader.wait(timeout)

    def status(self) -> Status:
        return self.loader.status

    def methods(self) -> list[MethodInfo]:
        default = "cacheclip-trained" if model_config(self.loader.settings).heads else "cacheclip"
        return [replace(method, is_default=method.name == default) for method in methods()]

    def documents(self) -> list[Document]:
        return self.loader.listed()

    def ingest(self, files: list[tuple[Path, str]], cancel: Event) -> Iterator[list[IngestProgress]]:
        return self._adding.add(files, cancel)

    def delete(self, document_id: str) -> None:
        with self.loader.borrow() as house, house.engine.track_deletions():  # is not stopped half way
            known = {chunk.text for chunk in house.documents.chunks(document_id)}
            # Before the document goes: afterwards nobody would know its passages.
            names = [name for text in known for name in house.engine.forget(text)]
            for text in {chunk.text for chunk in house.documents.delete(document_id)} - known:
                house.engine.forget(text)
            for name in names:
                house.tiers.tree.delete(name)  # a question may have found and computed it meanwhile
            self._filed.forget(document_id)
            house.engine.forget_others()

    def tier_usage(self) -> list[TierUsage]:
        return [TierUsage(tier.name, tier.size_bytes, tier.budget_bytes) for tier in self.loader.tiers()]

    def clear(self) -> None:
        with self.loader.borrow() as house:
            house.tiers.tree.clear()

    def budget(self, request: Request) -> ContextBudget:
        with self.loader.borrow() as house:
            return house.engine.budget(request)

    def ask(self, request: Request, cancel: Event) -> Iterator[Answer]:
        unread = self._adding.unread()

        def shown(answer: Answer) -> Answer:  # a copy: the engine goes on with its answer while the page shows this one
            seen = question.note(answer)
            if unread and not request.documents:
                seen.notes = (unread, *seen.notes)
            if seen.state == "stopped" and self._work.paused_now:
                seen.notes += (CHANGED,)
            return seen

        with self.metrics.question() as question, self._work.track(cancel):
            engine = self.loader.ready().engine
            yield from run_in_thread(lambda: map(shown, engine.ask(request, cancel)), cancel)

    def close(self) -> None:
        """Stop all work, then close the files; once. The next start finds everything as it was."""
        if not self._work.closing:
            self._work.close(LAST_STEP_S)
            self.models.reloader.wait(LAST_STEP_S)
            self.loader.close()

    def _settled(self, line: str) -> None:
        if self._settings.samples:
            self._adding.samples(line, self._settings.data / "samples-added")
