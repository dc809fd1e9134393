"""A fake library service over the documents of a FakeBackend."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event

from backend.interface.library import DocumentUsage, IngestProgress, Passage
from store.errors import NoSuchDocument
from store.types import Chunk, Document, Excerpt

HOST_BYTES = 12_400_000  # KV of each document in memory; three times as much on disk


class FakeLibrary:
    """Passages repeat the backend's `texts`. `reindexed` are the ids so far.

    Tests may set ids in `needs_rechunk`, and questions in `suggested`, by the ids of their documents.
    """

    def __init__(self, backend) -> None:
        self._backend = backend
        self.needs_rechunk: set[str] = set()
        self.suggested: dict[str, list[str]] = {}
        self.reindexed: list[str] = []
        self.remembered: dict[str, dict] = {}  # settings by collection
        self.counting = False

    def list_with_usage(self) -> list[DocumentUsage]:
        tiers = None if self.counting else {} if self._backend.cleared else {"host": HOST_BYTES, "disk": 3 * HOST_BYTES}
        return [
            DocumentUsage(document, tiers, document.id in self.needs_rechunk) for document in self._backend.documents()
        ]

    def passages(self, document_id: str, start: int, count: int) -> list[Passage]:
        document = self._document(document_id)
        numbers = range(start, min(document.num_chunks, start + count))
        tiers = ("host", "disk", "")
        return [Passage(self._chunk(document, number), 97, tiers[number % 3]) for number in numbers]

    def suggested_questions(self, document_ids: Sequence[str], limit: int) -> list[str]:
        return [question for each in document_ids for question in self.suggested.get(each, ())][:limit]

    def excerpt(self, chunk_id: str) -> Excerpt:
        document_id, _, number = chunk_id.rpartition("-")
        chunk = self._chunk(self._document(document_id), int(number))
        before = "The text before it. "
        return Excerpt(
            chunk, f"{before}{chunk.text} And after.", len(before), len(before) + len(chunk.text), True, True
        )

    def bytes_freed_by_delete(self, document_ids: Sequence[str]) -> int:
        return 4 * HOST_BYTES * len(document_ids)

    def rename(self, document_id: str, name: str) -> Document:
        renamed = replace(self._document(document_id), name=name)
        documents = self._backend.stored_documents
        documents[[document.id for document in documents].index(document_id)] = renamed
        return renamed

    def add_to_collection(self, document_ids: Sequence[str], name: str) -> None:
        self._change(document_ids, lambda names: {*names, name})

    def remove_from_collection(self, document_ids: Sequence[str], name: str) -> None:
        self._change(document_ids, lambda names: {*names} - {name})

    def collection_settings(self, name: str) -> dict:
        return self.remembered.get(name, {})

    def remember_settings(self, name: str, values) -> None:
        self.remembered[name] = dict(values)

    def copy(self, document_id: str, target: Path) -> None:
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(asdict(self._document(document_id))))

    def restore(self, source: Path) -> None:
        document = Document(**json.loads(source.read_text()))
        document = replace(document, collections=tuple(document.collections))
        if document.id not in {each.id for each in self._backend.stored_documents}:
            self._backend.stored_documents.append(document)

    def _change(self, document_ids, change) -> None:
        self._backend.stored_documents[:] = [
            replace(each, collections=tuple(sorted(change(each.collections)))) if each.id in document_ids else each
            for each in self._backend.stored_documents
        ]

    def reindex(self, document_ids: Sequence[str], cancel: Event) -> Iterator[list[IngestProgress]]:
        documents = [self._document(document_id) for document_id in document_ids]
        states = [IngestProgress(document.name, "waiting", 0, 1) for document in documents]
        for index, document in enumerate(documents):
            for done in range(9):
                if cancel.wait(self._backend.pace_s):
                    states[index] = IngestProgress(document.name, "failed", 0, 1, "Stopped. The document is unchanged.")
                    yield list(states)
                    return
                states[index] = IngestProgress(document.name, "embedded", done, 8)
                yield list(states)
            self.reindexed.append(document.id)
            self.needs_rechunk.discard(document.id)
            states[index] = IngestProgress(document.name, "done", 8, 8, "", document.id)
            yield list(states)
        self._backend.models.stale = []

    def _document(self, document_id: str) -> Document:
        for document in self._backend.documents():
            if document.id == document_id:
                return document
        raise NoSuchDocument("This document is not in the library.")

    def _chunk(self, document: Document, number: int) -> Chunk:
        text = self._backend.texts[number % len(self._backend.texts)]
        page = None if document.num_pages is None else 1 + number // 2
        start = 300 * number
        chunk_id = f"{document.id}-{number}"
        return Chunk(chunk_id, document.id, document.name, number, page, start, start + len(text), text)
