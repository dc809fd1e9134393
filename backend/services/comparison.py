"""The desk behind the Compare page: the engine's comparison in a thread of its own."""

from collections.abc import Iterator
from threading import Event

from backend.runtime.loader import Loader
from backend.runtime.tasks import Work
from engine.analysis.compare import compare
from engine.analysis.comparison import Comparison, Wanted
from engine.scheduler.worker_thread import in_own_thread


class Comparing:
    """Compares methods on the engine of the house."""

    def __init__(self, loader: Loader, work: Work) -> None:
        self._loader, self._work = loader, work

    def compare(self, wanted: Wanted, cancel: Event) -> Iterator[Comparison]:
        """Yield one growing comparison. Raises ModelNotReady until the models are loaded."""
        with self._work.stoppable(cancel):
            engine = self._loader.ready().engine
            yield from in_own_thread(lambda: compare(engine, wanted, cancel), cancel)
