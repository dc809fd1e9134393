"""Documents that are being worked on, and the removal of incomplete ones."""

import threading
from contextlib import suppress

from store.catalog.catalog import Catalog
from store.errors import StoreFull
from store.retrieval.vectors import VectorIndex


class PendingDocuments:
    """Claims on documents, and the pending owners (see `store.catalog.catalog`) of one library.

    lock  the library's lock, which guards catalog and vectors
    """

    def __init__(self, catalog: Catalog, vectors: VectorIndex, lock: threading.RLock) -> None:
        self._catalog = catalog
        self._vectors = vectors
        self._lock = lock
        self._claimed: set[str] = set()

    def claim(self, document_id: str) -> bool:
        """Claim a document for one worker; return False if it is claimed already."""
        with self._lock:
            is_free = document_id not in self._claimed
            self._claimed.add(document_id)
            return is_free

    def release(self, document_id: str) -> None:
        with self._lock:
            self._claimed.discard(document_id)

    def purge_stale(self, document_id: str) -> None:
        """Before work on a claimed document, delete what a full disk kept from being deleted. Raises StoreFull."""
        with self._lock:
            others = self._claimed - {document_id}
            for owner in self._catalog.pending_owners():
                if owner.partition(".")[0] not in others:
                    self.purge(owner)

    def purge(self, owner: str) -> None:
        """Delete a pending owner's vectors and row. Raises StoreFull."""
        with self._lock:
            self._vectors.delete(owner)
            self._catalog.delete_pending(owner)

    def try_purge(self, owner: str) -> None:
        """Purge an owner; on a full disk it stays hidden until a later purge."""
        with suppress(StoreFull):
            self.purge(owner)
