"""The Library page's desk: documents with what they take in each tier, and re-indexing."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from threading import Event

from backend.interface.library import DocumentUsage, IngestProgress, Passage
from backend.runtime.loader import Runtime, RuntimeLoader
from backend.runtime.tasks import TaskRegistry
from backend.services.ingest import IngestService
from backend.services.kv_owners import ChunkOwners
from engine.cache.weigh import bytes_of
from engine.errors import LoadingFailed, ModelNotReady
from store.types import Document, Excerpt, Progress


class LocalLibraryService:
    """Reads and changes the documents of the house; see `backend.interface.library.ShelfDesk` for what each method promises."""

    def __init__(self, loader: RuntimeLoader, work: TaskRegistry, adding: IngestService, filed: ChunkOwners) -> None:
        self._loader, self._work, self._adding, self._filed = loader, work, adding, filed

    def list_with_usage(self) -> list[DocumentUsage]:
        with suppress(ModelNotReady, LoadingFailed), self._loader.borrow() as house:
            documents = house.documents.documents()
            self._filed.retain(documents)
            names = self._filed.names(house.engine, documents, house.documents.chunks)
            return [self._held(house, document, names[document.id]) for document in documents]
        return []

    def passages(self, document_id: str, start: int, count: int) -> list[Passage]:
        found = []
        with self._loader.borrow() as house:
            cache, tree = house.engine.cache, house.tiers.tree
            for chunk in house.documents.chunks(document_id)[start : start + count]:
                ids = house.engine.prompt.passage(chunk.text).ids
                nodes = tree.match_prefix([cache.key(ids)])
                level = nodes[0].level if nodes else len(tree.tiers)
                found.append(Passage(chunk, len(ids), tree.tiers[level].name if level < len(tree.tiers) else ""))
        return found

    def excerpt(self, chunk_id: str) -> Excerpt:
        with self._loader.borrow() as house:
            return house.documents.excerpt(chunk_id)

    def bytes_freed_by_delete(self, document_ids: Sequence[str]) -> int:
        with self._loader.borrow() as house:
            documents = [document for document in house.documents.documents() if document.id in set(document_ids)]
            names = self._filed.names(house.engine, documents, house.documents.chunks, patient=True)
            every = [name for of_one in names.values() for name in of_one or ()]
            return sum(bytes_of(house.tiers.tree, every).values())

    def rename(self, document_id: str, name: str) -> Document:
        with self._loader.borrow() as house:
            return house.documents.rename(document_id, name)

    def reindex(self, document_ids: Sequence[str], cancel: Event) -> Iterator[list[IngestProgress]]:
        with self._work.track(cancel):
            house = self._loader.ready()
            names = {document.id: document.name for document in house.documents.documents()}
            wanted = [(document_id, names.get(document_id, "A deleted document")) for document_id in document_ids]
            states = [IngestProgress(name, "waiting", 0, 1) for _, name in wanted]
            for place, (document_id, name) in enumerate(wanted):
                if cancel.is_set():
                    states[place] = IngestProgress(name, "failed", 0, 1, "Stopped. It is as it was.")
                    yield list(states)
                    continue
                begin = partial(self._cut, house, document_id)
                for states[place] in self._adding.follow(house, name, begin, cancel, kept="It is as it was."):
                    yield list(states)

    def _cut(self, house: Runtime, document_id: str) -> Iterator[Progress]:
        """Yield the steps of a new cut. The old cut's KV goes while it is still known whose it was."""
        old = [chunk.text for chunk in house.documents.chunks(document_id)]
        for step in house.documents.reindex(document_id):
            indexed = step.stage == "indexed"
            if indexed or (step.stage == "embedded" and step.done == step.total):
                stays = {chunk.text for chunk in house.documents.chunks(document_id)} if indexed else set()
                for text in old:
                    if text not in stays:
                        house.engine.forget(text)
                self._filed.forget(document_id)
            yield step

    def _held(self, house: Runtime, document: Document, names: list[str] | None) -> DocumentUsage:
        tiers = None if names is None else bytes_of(house.tiers.tree, names)
        return DocumentUsage(document, tiers, house.documents.needs_rechunk(document))
