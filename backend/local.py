"""The page's backend: everything it asks for before the models are there is a clear sentence, not a wait."""

from collections.abc import Iterator
from copy import copy
from pathlib import Path
from threading import Event
from typing import Any

from backend.adding import Adding
from backend.cache import LocalCache
from backend.comparison import Comparing
from backend.loading import Loader
from backend.work import Work
from engine.answer import Answer, Budget, Request
from engine.own_thread import in_own_thread
from engine.reuse.strategies import methods
from engine.setting import Method
from settings import Settings
from store.types import Document
from ui.backend import IngestProgress, Kept, Status


class LocalBackend:
    """Models, documents and engine of one data folder (hold its FolderLock); one object a process."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._work = settings, Work()
        self.loader = Loader(settings, self._work, self._settled)
        self._adding = Adding(self.loader, self._work)
        self.cache = LocalCache(self.loader, settings.data / "kv")
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
        return methods()

    def documents(self) -> list[Document]:
        return self.loader.house.documents.documents() if self.loader.house else []

    def ingest(self, files: list[tuple[Path, str]], cancel: Event) -> Iterator[list[IngestProgress]]:
        return self._adding.add(files, cancel)

    def delete(self, document_id: str) -> None:
        house = self.loader.ready()
        for chunk in house.documents.chunks(document_id):
            house.engine.forget(chunk.text)  # before the document goes: afterwards nobody would know its passages
        for chunk in house.documents.delete(document_id):
            house.engine.forget(chunk.text)
        house.engine.forget_others()

    def kept(self) -> list[Kept]:
        if self.loader.house is None:
            return []
        return [Kept(tier.name, tier.size_bytes, tier.budget_bytes) for tier in self.loader.house.tiers.tree.tiers]

    def clear(self) -> None:
        self.loader.ready().tiers.tree.clear()

    def budget(self, request: Request) -> Budget:
        return self.loader.ready().engine.budget(request)

    def ask(self, request: Request, cancel: Event) -> Iterator[Answer]:
        engine = self.loader.ready().engine
        with self._work.stoppable(cancel):  # copies: the engine goes on with its answer while the page shows this one
            yield from in_own_thread(lambda: map(copy, engine.ask(request, cancel)), cancel)

    def inspect(self, request: Request, cancel: Event) -> dict[str, Any]:
        engine = self.loader.ready().engine
        with self._work.stoppable(cancel):
            return engine.inspect(request, cancel).as_dict()

    def close(self) -> None:
        """Stop all work, then close the files; once. The next start finds everything as it was."""
        if not self._work.closing:
            self._work.close()
            self.loader.close()

    def _settled(self, line: str) -> None:
        if self._settings.samples:
            self._adding.samples(line, self._settings.data / "samples-added")
