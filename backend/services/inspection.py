"""The desk behind the Inspect page."""

from collections.abc import Iterator
from threading import Event

from backend.runtime.loader import Loader
from backend.runtime.tasks import Work
from engine.analysis.inspect import inspecting
from engine.analysis.report import Step
from engine.request import Request
from engine.scheduler.worker_thread import in_own_thread


class Inspections:
    """Looks into questions with the models of the house, one step after the other."""

    def __init__(self, loader: Loader, work: Work) -> None:
        self._loader, self._work = loader, work

    def inspect(self, request: Request, cancel: Event) -> Iterator[Step]:
        """Yield what is being done; the last step holds what was found. Raises what `inspecting` does."""
        with self._work.stoppable(cancel):
            engine = self._loader.ready().engine
            yield from in_own_thread(lambda: inspecting(engine, request, cancel), cancel)
