"""The desk behind the Compare page: the engine's comparison in a thread of its own."""

from collections.abc import Iterator
from threading import Event

from backend.runtime.loader import RuntimeLoader
from backend.runtime.tasks import TaskRegistry
from engine.analysis.compare import compare
from engine.analysis.comparison import CompareRequest, Comparison
from engine.scheduler.worker_thread import run_in_thread


class LocalCompareService:
    """Compares methods on the engine of the house."""

    def __init__(self, loader: RuntimeLoader, work: TaskRegistry) -> None:
        self._loader, self._work = loader, work

    def compare(self, wanted: CompareRequest, cancel: Event) -> Iterator[Comparison]:
        """Yield one growing comparison. Raises ModelNotReady until the models are loaded."""
        with self._work.track(cancel):
            engine = self._loader.ready().engine
            yield from run_in_thread(lambda: compare(engine, wanted, cancel), cancel)
