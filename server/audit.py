"""Records in the audit log what clients do to library, cache and settings, on the page or by one of the APIs."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from threading import Event
from typing import IO, Any, cast

from backend.interface import library as interface
from backend.interface.backend import Backend
from backend.interface.cache import CacheService
from backend.interface.models import ModelService, SettingsChange
from engine.cache.admin import EvictionResult
from server.client import client_label, current_client
from store.audit import AuditLog
from store.feedback import Feedback
from store.types import Document


class _Audited:
    """What the audited backend and its services share; what they do not define is the wrapped object's."""

    def __init__(self, wrapped: Any, backend: Backend, audit: AuditLog) -> None:
        self._wrapped = wrapped
        self._backend = backend
        self._audit = audit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def _follow(
        self, action: str, documents: Sequence[tuple[str, str]], steps: Iterator[list[interface.IngestProgress]]
    ) -> Generator[list[interface.IngestProgress], None, None]:
        """Yield the steps; record the outcome for each document, given by its name and id, as soon as it is known."""
        client, pending = _client(), dict(enumerate(documents))

        def record(index: int, outcome: str, document_id: str) -> None:
            name, known_id = pending.pop(index)
            document_id = document_id or known_id
            self._audit.record(client, action, outcome, self._name(document_id) or name, document_id)

        try:
            with closing(cast("Generator[list[interface.IngestProgress], None, None]", steps)):
                for states in steps:
                    for index, state in enumerate(states):
                        if index in pending and (state.document_id or state.stage == "failed"):
                            record(index, _outcome(state), state.document_id)
                    yield states
        finally:
            for index in list(pending):
                record(index, "failed", "")

    def _name(self, document_id: str) -> str:
        return next((document.name for document in self._backend.documents() if document.id == document_id), "")


class _AuditedLibrary(_Audited):
    def rename(self, document_id: str, name: str) -> Document:
        with self._audit.recording(_client(), "rename", self._name(document_id), document_id) as details:
            document = self._wrapped.rename(document_id, name)
            details["new_name"] = document.name
        return document

    def restore(self, source: Path) -> None:
        with self._audit.recording(_client(), "import", source.name):
            self._wrapped.restore(source)

    def reindex(self, document_ids: Sequence[str], cancel: Event) -> Iterator[list[interface.IngestProgress]]:
        documents = [(self._name(each), each) for each in document_ids]
        return self._follow("reindex", documents, self._wrapped.reindex(document_ids, cancel))


class _AuditedModels(_Audited):
    def apply(self, settings: SettingsChange) -> None:
        with self._audit.recording(_client(), "settings") as details:
            details["fields"] = _changed(self._wrapped.current(), settings)
            self._wrapped.apply(settings)


class _AuditedCache(_Audited):
    def set_budget(self, tier: str, budget_bytes: int) -> EvictionResult:
        with self._audit.recording(_client(), "settings") as details:
            before = self._backend.models.current()
            evicted: EvictionResult = self._wrapped.set_budget(tier, budget_bytes)
            details["fields"] = _changed(before, self._backend.models.current())
        return evicted


class _AuditedFeedback(_Audited):
    def export(self) -> str:
        with self._audit.recording(_client(), "export-ratings"):
            ratings: str = self._wrapped.export()
        return ratings


class _AuditedBackend(_Audited):
    @property
    def feedback(self) -> Feedback:
        return cast(Feedback, _AuditedFeedback(self._wrapped.feedback, self._backend, self._audit))

    @property
    def models(self) -> ModelService:
        return cast(ModelService, _AuditedModels(self._wrapped.models, self._backend, self._audit))

    @property
    def cache(self) -> CacheService:
        return cast(CacheService, _AuditedCache(self._wrapped.cache, self._backend, self._audit))

    @property
    def library(self) -> interface.LibraryService:
        return cast(interface.LibraryService, _AuditedLibrary(self.__getattr__("library"), self._backend, self._audit))

    def ingest(self, files: list[tuple[Path, str]], cancel: Event) -> Iterator[list[interface.IngestProgress]]:
        return self._follow("add", [(name, "") for _, name in files], self._wrapped.ingest(files, cancel))

    def ingest_web_page(self, url: str, cancel: Event) -> Iterator[list[interface.IngestProgress]]:
        return self._follow("add", [(url, "")], self._wrapped.ingest_web_page(url, cancel))

    def export(self, target: IO[bytes]) -> None:
        with self._audit.recording(_client(), "export"):
            self._wrapped.export(target)

    def delete(self, document_id: str) -> bool:
        with self._audit.recording(_client(), "delete", self._name(document_id), document_id) as details:
            is_deleted: bool = self._wrapped.delete(document_id)
            details["outcome"] = "ok" if is_deleted else "unchanged"
        return is_deleted

    def clear(self) -> None:
        with self._audit.recording(_client(), "clear-cache"):
            self._wrapped.clear()


def audited(backend: Backend, audit: AuditLog) -> Backend:
    """Return the backend with changes to library, cache and settings recorded."""
    return cast(Backend, _AuditedBackend(backend, backend, audit))


def _outcome(state: interface.IngestProgress) -> str:
    return "failed" if state.stage == "failed" else "unchanged" if state.unchanged else "ok"


def _changed(before: SettingsChange, after: SettingsChange) -> str:
    """Return the names of the settings that differ."""
    names = [field.name for field in fields(SettingsChange)]
    return " ".join(name for name in names if getattr(before, name) != getattr(after, name))


def _client() -> str:
    return client_label(current_client())
