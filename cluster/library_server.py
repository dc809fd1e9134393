"""The library of several KVScope instances as a server: `python -m cluster library`.

Its client is `store/remote_library.py`. It is the only process that writes documents.
"""

import logging
import secrets
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import uvicorn
from tokenizers import Tokenizer

from backend.interface.errors import BadSettings
from backend.runtime.loader import RuntimeLoader, model_config
from backend.runtime.secrets import LIBRARY_KEY
from backend.runtime.settings import Settings
from backend.runtime.tasks import TaskRegistry
from cluster.library_app import Runs, library_app
from engine.model.loading.resolve import resolve
from engine.model.tokenizer import TextTokenizer
from store.catalog.transfer import export_library
from store.data_folder import restrict_access, temporary_folder
from store.document_library import DocumentLibrary
from store.errors import KVScopeError
from store.lock import FolderLock
from store.remote_library import BLOCK_BYTES, Deletions, DocumentList, LibraryServer
from store.types import Chunk, Progress

GRACE_S = 3  # for running requests at the end
KEEP_ALIVE_S = 65  # of idle connections, longer than clients keep them
MAX_CONNECTIONS = 1000
CLEAN_S = 10.0  # between two attempts to delete what could not be deleted
SAME_FILE_POLL_S = 0.5
KEPT_PASSAGES, KEPT_S = 10_000, 3600.0  # deleted ones, whose texts are remembered for the backends
log = logging.getLogger("kvscope")


class SharedLibrary(DocumentLibrary, LibraryServer):
    """A library that tells what was deleted, for the backends that have KV of it."""

    def __init__(self, root: Path, *arguments: Any) -> None:
        super().__init__(root, *arguments)
        self._data = root.parent
        self._process = secrets.token_hex(8)  # in cursors: those of an earlier process are unknown
        self._deleted = deque[tuple[float, str, str]](maxlen=KEPT_PASSAGES)  # time, document (if it is gone), passage
        self._num_deleted = 0
        self._deleted_lock = Lock()

    def add(self, path: Path, name: str) -> Iterator[Progress]:
        """As `Library.add`; while someone else adds the same file, wait: that may be cancelled."""
        is_added_elsewhere = True
        while is_added_elsewhere:
            for step in super().add(path, name):
                is_added_elsewhere = step.stage == "indexed" and step.document is None
                yield Progress("waiting", 0, 1) if is_added_elsewhere else step
            if is_added_elsewhere:
                time.sleep(SAME_FILE_POLL_S)

    def delete(self, document_id: str) -> list[Chunk]:
        chunks = super().delete(document_id)
        self._record(document_id, [chunk.passage for chunk in chunks])
        return chunks

    def reindex(self, document_id: str) -> Iterator[Progress]:
        before = [chunk.passage for chunk in self.chunks(document_id)]
        try:
            yield from super().reindex(document_id)
        finally:
            present = {chunk.passage for chunk in self.chunks(document_id)}
            self._record("", [passage for passage in before if passage not in present])

    def documents_since(self, version: str) -> DocumentList:
        current = f"{self._process}-{self.num_changes}"  # read first: it may be too old, never too new
        return DocumentList(current, None if version == current else self.documents())

    def deletions(self, cursor: str) -> Deletions:
        with self._deleted_lock:
            while self._deleted and self._deleted[0][0] < time.monotonic() - KEPT_S:
                self._deleted.popleft()
            process, _, count = cursor.partition("-")
            num_new = self._num_deleted - int(count) if process == self._process and count.isdecimal() else -1
            is_complete = 0 <= num_new <= len(self._deleted)
            new = list(self._deleted)[len(self._deleted) - num_new :] if is_complete else []
            ids = list(dict.fromkeys(document for _, document, _ in new if document))
            passages = [passage for _, _, passage in new]
            return Deletions(f"{self._process}-{self._num_deleted}", is_complete, ids, passages)

    def export(self) -> Iterator[bytes]:
        with tempfile.TemporaryFile() as file:
            export_library(self._data, file)
            file.seek(0)
            while block := file.read(BLOCK_BYTES):
                yield block

    def _record(self, document_id: str, passages: Sequence[str]) -> None:
        with self._deleted_lock:
            self._deleted.extend((time.monotonic(), document_id, passage) for passage in passages)
            self._num_deleted += len(passages)


def serve(settings: Settings, key: str, certificate: str = "", certificate_key: str = "") -> None:
    """Serve the library of a data folder until SIGINT or SIGTERM. Raises KVScopeError."""
    if not key:
        raise BadSettings(f"A library server needs a key in {LIBRARY_KEY}, which its clients send.")
    with closing(FolderLock(settings.data)), temporary_folder(settings.data) as temporary:
        restrict_access(settings.data)
        tempfile.tempdir = str(temporary.absolute())
        library = _open(settings)
        runs = Runs()
        app = library_app(library, key, settings.limits.max_file_bytes, runs)
        config = uvicorn.Config(
            app,
            settings.host,
            settings.port,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=GRACE_S,
            timeout_keep_alive=KEEP_ALIVE_S,
            limit_concurrency=MAX_CONNECTIONS,
            ssl_certfile=certificate or None,
            ssl_keyfile=certificate_key or None,
        )
        ended = Event()
        upkeep = Thread(target=_keep_complete, args=[library, ended], name="upkeep")
        upkeep.start()
        log.info("The library of %s is served on %s:%d", settings.data, settings.host, settings.port)
        try:
            uvicorn.Server(config).run()
        finally:
            ended.set()
            runs.close(GRACE_S)
            upkeep.join()
            library.close()


def _open(settings: Settings) -> SharedLibrary:
    config = model_config(settings)
    folder = resolve(config.model, config.folder, lambda message, fraction: log.info("%s", message))
    tokenizer = TextTokenizer(Tokenizer.from_file(str(folder / "tokenizer.json"))).data
    library = RuntimeLoader(settings, TaskRegistry(), {}).open_library(tokenizer, SharedLibrary)
    assert isinstance(library, SharedLibrary)
    return library


def _keep_complete(library: SharedLibrary, ended: Event) -> None:
    """Compute the vectors that are missing; delete what a full disk or the Chroma server did not let be deleted.

    What fails is tried again, until the end.
    """
    failure = ""  # the last one, which is logged once
    while True:
        try:
            library.purge()
            with closing(library.embed_missing()) as steps:
                for _ in steps:
                    if ended.is_set():
                        return
            failure = ""
        except KVScopeError as error:
            if str(error) != failure:
                log.warning("the library is not complete: %s", error)
            failure = str(error)
        except Exception:
            log.exception("the library could not be completed")
        if ended.wait(CLEAN_S):
            return
