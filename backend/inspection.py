"""The desk behind the Inspect page."""

from collections.abc import Iterator
from threading import Event

from backend.loading import Loader
from backend.work import Work
from engine.answer import Request
from engine.inspect.inspection import Step
from engine.inspect.probe import inspecting
from engine.own_thread import in_own_thread


class Inspections:
    """Looks into questions with the models of the house, one step after the other."""

    def __init__(self, loader: Loader, work: Work) -> None:
        self._loader, self._work = loader, work

    def inspect(self, request: Request, cancel: Event) -> Iterator[Step]:
        """Yield what is being done; the last step holds what was found. Raises what `inspecting` does."""
        with self._work.stoppable(cancel):
            engine = self._loader.ready().engine
            yield from in_own_thread(lambda: inspecting(engine, request, cancel), cancel)
