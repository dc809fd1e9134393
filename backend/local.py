"""The page's backend: everything it asks for before the models are there is a clear sentence, not a wait."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event

from backend.interface.backend import Kept, Status
from backend.interface.inspection import InspectionDesk
from backend.interface.library import IngestProgress
from backend.runtime.loader import LAST_STEP_S, Loader, model_config
from backend.runtime.settings import Settings
from backend.runtime.tasks import Work
from backend.services.cache import LocalCache
from backend.services.comparison import Comparing
from backend.services.ingest import Adding
from backend.services.inspection import Inspections
from backend.services.kv_owners import Filed
from backend.services.library import LocalShelf
from backend.services.metrics import Meter
from backend.services.models import Models
from engine.method import Method
from engine.request import Answer, Budget, Request
from engine.scheduler.worker_thread import in_own_thread
from engine.strategies import methods
from store.types import Document

CHANGED = "Stopped: the settings were changed. Ask again once the status says ready."


class LocalBackend:
    """Models, documents and engine of one data folder (hold its FolderLock); one object a process.

    fixed  choices that a flag or a variable has made, by name: the page cannot change them
    """

    def __init__(self, settings: Settings, fixed: Mapping[str, str] | None = None) -> None:
        self._settings, self._work = settings, Work()
        self.loader = Loader(settings, self._work, self._settled)
        self._adding = Adding(self.loader, self._work)
        self._filed = Filed()
        self.shelf = LocalShelf(self.loader, self._work, self._adding, self._filed)
        self.models = Models(self.loader, self._work, fixed or {})
        self.cache = LocalCache(self.loader, settings.data / "kv", self.models.reloader.rebudget, self._filed)
        self.inspection: InspectionDesk = Inspections(self.loader, self._work)
        self.meter = Meter(self.kept)
        self.comparison = Comparing(self.loader, self._work)

    def start(self) -> None:
        """Load the models in the background."""
        self.loader.start()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until loading has ended, well or badly."""
        self.loader.wait(timeout)

    def status(self) -> Status:
        return self.loader.status

    def methods(self) -> list[Method]:
        usual = "cacheclip-trained" if model_config(self.loader.settings).heads else "cacheclip"
        return [replace(method, usual=method.name == usual) for method in methods()]

    def documents(self) -> list[Document]:
        return self.loader.listed()

    def ingest(self, files: list[tuple[Path, str]], cancel: Event) -> Iterator[list[IngestProgress]]:
        return self._adding.add(files, cancel)

    def delete(self, document_id: str) -> None:
        with self.loader.visiting() as house, house.engine.visit():  # is not stopped half way
            known = {chunk.text for chunk in house.documents.chunks(document_id)}
            # Before the document goes: afterwards nobody would know its passages.
            names = [name for text in known for name in house.engine.forget(text)]
            for text in {chunk.text for chunk in house.documents.delete(document_id)} - known:
                house.engine.forget(text)
            for name in names:
                house.tiers.tree.delete(name)  # a question may have found and computed it meanwhile
            self._filed.forget(document_id)
            house.engine.forget_others()

    def kept(self) -> list[Kept]:
        return [Kept(tier.name, tier.size_bytes, tier.budget_bytes) for tier in self.loader.tiers()]

    def clear(self) -> None:
        with self.loader.visiting() as house:
            house.tiers.tree.clear()

    def budget(self, request: Request) -> Budget:
        with self.loader.visiting() as house:
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

        with self.meter.question() as question, self._work.stoppable(cancel):
            engine = self.loader.ready().engine
            yield from in_own_thread(lambda: map(shown, engine.ask(request, cancel)), cancel)

    def close(self) -> None:
        """Stop all work, then close the files; once. The next start finds everything as it was."""
        if not self._work.closing:
            self._work.close(LAST_STEP_S)
            self.models.reloader.wait(LAST_STEP_S)
            self.loader.close()

    def _settled(self, line: str) -> None:
        if self._settings.samples:
            self._adding.samples(line, self._settings.data / "samples-added")
