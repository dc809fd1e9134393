"""Follows the deletions of a library that other instances change, too: KV and ratings of what is gone are deleted."""

import logging
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import cast

from backend.interface.cluster import EngineCluster
from backend.runtime.loader import Runtime, RuntimeLoader
from backend.services.cache import ChunkOwners
from engine.errors import LoadingFailed, ModelNotReady
from store.atomic import write_atomic
from store.disk_full import disk_full_as_store_full
from store.errors import LibraryUnavailable
from store.feedback import Feedback
from store.remote_library import LibraryServer

FILE_NAME = "library.cursor"
POLL_S = 2.0
log = logging.getLogger("kvscope")


class DeletionFollower:
    """Asks the library server every POLL_S what was deleted."""

    def __init__(
        self,
        loader: RuntimeLoader,
        chunk_owners: ChunkOwners,
        feedback: Feedback,
        cluster: EngineCluster | None = None,
    ) -> None:
        self._loader = loader
        self._chunk_owners = chunk_owners
        self._feedback = feedback
        self._cluster = cluster
        self._is_closed = Event()

    def start(self) -> None:
        Thread(target=self._run, name="deletions", daemon=True).start()

    def close(self) -> None:
        self._is_closed.set()

    def follow(self, runtime: Runtime) -> None:
        """Delete what belongs to deleted documents, or to none if the server does not know what was deleted."""
        found = cast(LibraryServer, runtime.documents).deletions(self._read_cursor())
        passages = runtime.engine.passages
        if not found.is_complete and not self._keep_only_current(runtime):
            return
        for text in found.passages:
            passages.delete(text)
        if found.passages or not found.is_complete:
            passages.delete_other_models()
        for document_id in found.document_ids:
            self._chunk_owners.discard(document_id)
            self._feedback.forget(document_id)
        self._write_cursor(found.cursor)

    def _keep_only_current(self, runtime: Runtime) -> bool:
        """Delete KV and ratings of what is not in the library; return whether that was completed."""
        while None in (keys := self._chunk_owners.keys(runtime)).values():  # it tokenizes for a limited time
            if self._is_closed.is_set():
                return False
        current = {key for chunks in keys.values() for roles in (chunks or {}).values() for key in roles}
        with runtime.tiers.tree.locked() as tree:
            cached = {node.chunk for node in tree.nodes.values()}
        if self._cluster is not None:
            cached |= self._cluster.chunk_keys()
        if gone := sorted(cached - current):
            log.info("deleting KV of %d passages that are not in the library any more", len(gone))
            runtime.engine.passages.delete_keys(gone)
            if runtime.engine.passages.on_deleted:
                runtime.engine.passages.on_deleted(gone)
        rated = {passage.document_id for rating in self._feedback.ratings() for passage in rating.passages}
        for document_id in rated - keys.keys():
            self._feedback.forget(document_id)
        return True

    def _run(self) -> None:
        while not self._is_closed.wait(POLL_S):
            try:
                with suppress(ModelNotReady, LoadingFailed, LibraryUnavailable), self._loader.borrow() as runtime:
                    self.follow(runtime)
            except Exception:
                log.exception("deletions in the library could not be followed")

    @property
    def _file(self) -> Path:
        return self._loader.settings.data / FILE_NAME

    def _read_cursor(self) -> str:
        try:
            return self._file.read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""

    def _write_cursor(self, cursor: str) -> None:
        if cursor != self._read_cursor():
            with disk_full_as_store_full("save what was deleted"):
                write_atomic(self._file, cursor.encode())
