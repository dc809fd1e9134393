"""Computes missing vectors in the background, and tells what was damaged."""

import logging
from contextlib import closing, suppress
from threading import Event, Thread
from time import sleep

from backend.runtime.loader import RuntimeLoader
from backend.runtime.tasks import TaskRegistry
from engine.errors import LoadingFailed, ModelNotReady
from store.errors import KVScopeError, LibraryUnavailable, VectorsUnavailable
from store.library import Library

RETRY_S = 60.0
log = logging.getLogger("kvscope")


class Repairs:
    """The repairs of the library that is open."""

    def __init__(self, loader: RuntimeLoader, tasks: TaskRegistry) -> None:
        self._loader = loader
        self._tasks = tasks
        loader.on_open = self.start

    def start(self) -> None:
        """Compute the vectors that the library misses, if any, while questions are answered."""
        runtime = self._loader.runtime
        if runtime is not None and runtime.documents.documents_without_vectors():
            Thread(target=self._run, args=[runtime.documents], name="vectors", daemon=True).start()

    def notices(self) -> list[str]:
        """Return sentences for the user; empty if nothing was damaged."""
        with suppress(ModelNotReady, LoadingFailed), self._loader.borrow() as runtime:
            library = runtime.documents
            try:
                notices, missing = [library.info().notice], len(library.documents_without_vectors())
            except LibraryUnavailable as error:
                return [str(error)]
            if missing:
                documents = "1 document is" if missing == 1 else f"{missing} documents are"
                notices.append(f"{documents} found by words only until the search by meaning is complete again.")
            return list(filter(None, notices))
        return []

    def _run(self, library: Library) -> None:
        while not self._embed_missing(library):
            sleep(RETRY_S)
            runtime = self._loader.runtime
            if runtime is None or runtime.documents is not library:
                return

    def _embed_missing(self, library: Library) -> bool:
        """Compute vectors; return False if they could not be saved for now, because a Chroma server does not answer."""
        cancel = Event()
        try:
            with self._tasks.track(cancel), closing(library.embed_missing()) as steps:
                for _ in steps:
                    with self._tasks.between_questions(cancel):
                        if cancel.is_set():
                            return True
        except VectorsUnavailable as error:
            log.warning("vectors are still missing: %s", error)
            return False
        except KVScopeError as error:  # the next start continues
            log.warning("vectors are still missing: %s", error)
        except Exception:
            log.exception("missing vectors could not be computed")
        return True
