"""Implementation of the Library page's interface: documents with their KV usage, and re-indexing."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from threading import Event

from backend.interface.library import DocumentUsage, IngestProgress, Passage
from backend.runtime.loader import Runtime, RuntimeLoader
from backend.runtime.tasks import TaskRegistry
from backend.services.ingest import IngestService
from backend.services.kv_owners import ChunkOwners
from engine.cache.admin import chunk_bytes
from engine.errors import LoadingFailed, ModelNotReady
from store.types import Document, Excerpt, Progress

UNCHANGED = "The document is unchanged."


class LocalLibraryService:
    """Shows and changes the documents of the loaded library; see `backend.interface.library`."""

    def __init__(
        self, loader: RuntimeLoader, tasks: TaskRegistry, ingest: IngestService, chunk_owners: ChunkOwners
    ) -> None:
        self._loader = loader
        self._tasks = tasks
        self._ingest = ingest
        self._chunk_owners = chunk_owners

    def list_with_usage(self) -> list[DocumentUsage]:
        with suppress(ModelNotReady, LoadingFailed), self._loader.borrow() as runtime:
            library = runtime.library
            documents = library.documents()
            self._chunk_owners.retain(documents)
            all_keys = self._chunk_owners.chunk_keys(runtime.engine, documents, library.chunks)
            usage = []
            for document in documents:
                keys = all_keys[document.id]
                bytes_by_tier = None if keys is None else chunk_bytes(runtime.tiers.tree, keys)
                usage.append(DocumentUsage(document, bytes_by_tier, library.needs_rechunk(document)))
            return usage
        return []

    def passages(self, document_id: str, start: int, count: int) -> list[Passage]:
        passages = []
        with self._loader.borrow() as runtime:
            cache, tree = runtime.engine.cache, runtime.tiers.tree
            for chunk in runtime.library.chunks(document_id)[start : start + count]:
                ids = runtime.engine.template.passage(chunk.text).ids
                nodes = tree.match_prefix([cache.chunk_key(ids)])
                level = nodes[0].level if nodes else len(tree.tiers)
                tier = tree.tiers[level].name if level < len(tree.tiers) else ""
                passages.append(Passage(chunk, len(ids), tier))
        return passages

    def excerpt(self, chunk_id: str) -> Excerpt:
        with self._loader.borrow() as runtime:
            return runtime.library.excerpt(chunk_id)

    def bytes_freed_by_delete(self, document_ids: Sequence[str]) -> int:
        with self._loader.borrow() as runtime:
            library, ids = runtime.library, set(document_ids)
            documents = [document for document in library.documents() if document.id in ids]
            all_keys = self._chunk_owners.chunk_keys(runtime.engine, documents, library.chunks, wait=True)
            keys = [key for document_keys in all_keys.values() for key in document_keys or ()]
            return sum(chunk_bytes(runtime.tiers.tree, keys).values())

    def rename(self, document_id: str, name: str) -> Document:
        with self._loader.borrow() as runtime:
            return runtime.library.rename(document_id, name)

    def reindex(self, document_ids: Sequence[str], cancel: Event) -> Iterator[list[IngestProgress]]:
        with self._tasks.track(cancel):
            runtime = self._loader.ready()
            names = {document.id: document.name for document in runtime.library.documents()}
            states = [IngestProgress(names.get(each, "A deleted document"), "waiting", 0, 1) for each in document_ids]
            for i, document_id in enumerate(document_ids):
                name = states[i].name
                if cancel.is_set():
                    states[i] = IngestProgress(name, "failed", 0, 1, f"Stopped. {UNCHANGED}")
                    yield list(states)
                    continue
                steps = partial(self._rechunk, runtime, document_id)
                for states[i] in self._ingest.ingest_document(runtime, name, steps, cancel, failure_note=UNCHANGED):
                    yield list(states)

    def _rechunk(self, runtime: Runtime, document_id: str) -> Iterator[Progress]:
        """Yield the steps of re-indexing; delete the KV of old chunks while their texts are still known."""
        library = runtime.library
        old_texts = [chunk.text for chunk in library.chunks(document_id)]
        for step in library.reindex(document_id):
            is_indexed = step.stage == "indexed"
            if is_indexed or (step.stage == "embedded" and step.done == step.total):
                current = {chunk.text for chunk in library.chunks(document_id)} if is_indexed else set()
                for text in old_texts:
                    if text not in current:
                        runtime.engine.passages.delete(text)
                self._chunk_owners.discard(document_id)
            yield step
