"""Under which names a document's KV is filed: its passages' token ids, tokenised once and remembered.

A long document takes seconds to tokenise, and a page should not wait for it; so the work is done in slices.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic

from engine.engine import Engine
from store.types import Chunk, Document

SLICE_S = 0.15  # of one call
Named = tuple[tuple[str, str], ...]  # (name of a chunk in the tree, role)
Owner = tuple[str, str, str]  # document id, chunk id, role
Chunks = Callable[[str], list[Chunk]]  # of a document's id


def names_of(engine: Engine, text: str) -> Named:
    """Return what the knowledge tree calls one passage's KV, for the primary model and for an auxiliary of its own."""
    found = list[tuple[str, str]]()
    for role, (cache, prompt) in zip(("primary", "auxiliary"), engine.readers, strict=False):
        behind, alone = cache.names(prompt.passage_once(text).ids)
        found += [(behind, role), (alone, "alone")]
    return tuple(found)


class ChunkOwners:
    """The names of all passages of documents, for any number of threads. Another model starts it anew.

    clock  seconds, monotonic
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._lock = clock, Lock()
        self._model: tuple[str, ...] = ()
        self._named: dict[str, dict[str, Named]] = {}  # document id -> chunk id -> names

    def names(
        self, engine: Engine, documents: Sequence[Document], chunks: Chunks, patient: bool = False
    ) -> dict[str, list[str] | None]:
        """Return the names of each document's passages; None where another call is needed to go on counting.

        patient  count to the end
        """
        named = self._count(engine, documents, chunks)
        while patient and None in named.values():
            named = self._count(engine, documents, chunks)
        return {
            key: None if of_one is None else [name for each in of_one.values() for name, _ in each]
            for key, of_one in named.items()
        }

    def owners(self, engine: Engine, documents: Sequence[Document], chunks: Chunks) -> tuple[dict[str, Owner], bool]:
        """Return whose KV is filed under each name, and whether all are known or another call is needed to go on."""
        named, found = self._count(engine, documents, chunks), dict[str, Owner]()
        for document_id, of_one in named.items():
            for chunk_id, names in (of_one or {}).items():
                for name, role in names:
                    found.setdefault(name, (document_id, chunk_id, role))
        return found, None not in named.values()

    def retain(self, documents: Sequence[Document]) -> None:
        """Forget all others: they were deleted."""
        with self._lock:
            there = {document.id for document in documents}
            self._named = {key: names for key, names in self._named.items() if key in there}

    def forget(self, document_id: str) -> None:
        """Forget a document that is cut anew."""
        with self._lock:
            self._named.pop(document_id, None)

    def _count(
        self, engine: Engine, documents: Sequence[Document], chunks: Chunks
    ) -> dict[str, dict[str, Named] | None]:
        """Go on counting for one slice; reading a document's passages, once a slice at most, does not count."""
        left, found = SLICE_S, dict[str, dict[str, Named] | None]()
        with self._lock:
            self._follow(engine)
            for document in documents:
                known = self._named.setdefault(document.id, {})
                whole = len(known) >= document.chunks
                if not whole and left > 0:
                    waiting = [chunk for chunk in chunks(document.id) if chunk.id not in known]
                    began = self._clock()
                    while waiting and self._clock() - began < left:
                        chunk = waiting.pop(0)
                        known[chunk.id] = names_of(engine, chunk.text)
                    whole, left = not waiting, left - (self._clock() - began)
                found[document.id] = dict(known) if whole else None
        return found

    def _follow(self, engine: Engine) -> None:
        others = [engine.auxiliary.cache] if engine.auxiliary else []
        model = tuple(cache.fingerprint for cache in (engine.cache, *others))
        if model != self._model:
            self._model, self._named = model, {}
