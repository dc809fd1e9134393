"""The desk behind the Inspect page."""

from collections.abc import Iterator
from threading import Event

from backend.runtime.loader import RuntimeLoader
from backend.runtime.tasks import TaskRegistry
from engine.analysis.inspect import inspect
from engine.analysis.report import Step
from engine.request import Request
from engine.scheduler.worker_thread import run_in_thread


class LocalInspectService:
    """Looks into questions with the models of the house, one step after the other."""

    def __init__(self, loader: RuntimeLoader, work: TaskRegistry) -> None:
        self._loader, self._work = loader, work

    def inspect(self, request: Request, cancel: Event) -> Iterator[Step]:
        """Yield what is being done; the last step holds what was found. Raises what `inspecting` does."""
        with self._work.track(cancel):
            engine = self._loader.ready().engine
            yield from run_in_thread(lambda: inspect(engine, request, cancel), cancel)
