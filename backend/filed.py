"""Under which names a document's KV is filed: its passages' token ids, tokenised once and remembered.

A long document takes seconds to tokenise, and a page should not wait for it; so the work is done in slices.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic

from engine.pipeline import Engine
from store.types import Chunk, Document

SLICE_S = 0.15  # of one call
Named = tuple[tuple[str, str], ...]  # (name of a chunk in the tree, role)


def names_of(engine: Engine, text: str) -> Named:
    """Return what the knowledge tree calls one passage's KV, for the primary model and for an auxiliary of its own."""
    behind, alone = engine.cache.names(engine.prompt.passage(text).ids)
    found = [(behind, "primary"), (alone, "alone")]
    other = engine.auxiliary
    if other is not None and other.cache is not engine.cache:
        behind, alone = other.cache.names(other.prompt.passage(text).ids)
        found += [(behind, "auxiliary"), (alone, "alone")]
    return tuple(found)


class Filed:
    """The names of all passages of documents, for any number of threads. Another model starts it anew.

    clock  seconds, monotonic
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._lock = clock, Lock()
        self._model: tuple[str, ...] = ()
        self._names: dict[str, dict[str, tuple[str, ...]]] = {}  # document id -> chunk id -> names

    def names(
        self, engine: Engine, documents: Sequence[Document], chunks: Callable[[str], list[Chunk]], patient: bool = False
    ) -> dict[str, list[str] | None]:
        """Return the names of each document's passages; None where another call is needed to go on counting.

        patient  count to the end
        """
        with self._lock:
            self._follow(engine)
            until = None if patient else self._clock() + SLICE_S
            return {document.id: self._of(engine, document, chunks, until) for document in documents}

    def retain(self, documents: Sequence[Document]) -> None:
        """Forget all others: they were deleted."""
        with self._lock:
            there = {document.id for document in documents}
            self._names = {key: names for key, names in self._names.items() if key in there}

    def forget(self, document_id: str) -> None:
        """Forget a document that is cut anew."""
        with self._lock:
            self._names.pop(document_id, None)

    def _follow(self, engine: Engine) -> None:
        others = [engine.auxiliary.cache] if engine.auxiliary else []
        model = tuple(cache.fingerprint for cache in (engine.cache, *others))
        if model != self._model:
            self._model, self._names = model, {}

    def _of(
        self, engine: Engine, document: Document, chunks: Callable[[str], list[Chunk]], until: float | None
    ) -> list[str] | None:
        known = self._names.setdefault(document.id, {})
        if len(known) < document.chunks:
            for chunk in chunks(document.id):
                if until is not None and self._clock() > until:
                    return None
                if chunk.id not in known:
                    known[chunk.id] = tuple(name for name, _ in names_of(engine, chunk.text))
        return [name for names in known.values() for name in names]
