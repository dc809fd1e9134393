"""What is half done: which documents are being worked on, and the removal of what was left half done."""

import threading
from contextlib import suppress

from store.catalog.catalog import Catalog
from store.errors import StoreFull
from store.retrieval.vectors import VectorIndex


class Pending:
    """Claims on documents, and pending owners (see `store.catalog.catalog`) of one library.

    lock  the library's own, around catalogue and vectors
    """

    def __init__(self, catalogue: Catalog, vectors: VectorIndex, lock: threading.RLock) -> None:
        self._catalogue, self._vectors, self._lock = catalogue, vectors, lock
        self._claimed: set[str] = set()

    def claim(self, document_id: str) -> bool:
        """Take a document to work on it; return whether nobody had it."""
        with self._lock:
            free = document_id not in self._claimed
            self._claimed.add(document_id)
            return free

    def release(self, document_id: str) -> None:
        with self._lock:
            self._claimed.discard(document_id)

    def purge_stale(self, document_id: str) -> None:
        """Remove what an earlier end had no room to remove, before work on a claimed document. Raises StoreFull."""
        with self._lock:
            others = self._claimed - {document_id}
            for owner in self._catalogue.pending_owners():
                if owner.partition(".")[0] not in others:
                    self.purge(owner)

    def purge(self, owner: str) -> None:
        """Remove a pending owner's vectors and row. Raises StoreFull."""
        with self._lock:
            self._vectors.delete(owner)
            self._catalogue.delete_pending(owner)

    def try_purge(self, owner: str) -> None:
        """Purge; where even that has no room, what is left stays hidden until later."""
        with suppress(StoreFull):
            self.purge(owner)
