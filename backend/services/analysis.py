"""Implementation of the Inspect and Compare pages' interface: analyses run on the engine's thread."""

from collections.abc import Callable, Iterator
from threading import Event
from typing import TypeVar

from backend.runtime.loader import RuntimeLoader
from backend.runtime.tasks import TaskRegistry
from engine.analysis.comparison import CompareRequest, Comparison
from engine.analysis.comparison_runner import compare
from engine.analysis.inspection import InspectionStep
from engine.analysis.inspection_runner import inspect
from engine.engine import Engine
from engine.request import Request
from engine.scheduler.worker_thread import run_in_thread

Step = TypeVar("Step")


class LocalAnalysisService:
    """Inspects questions and compares methods with the loaded models; see `backend.interface.analysis`."""

    def __init__(self, loader: RuntimeLoader, tasks: TaskRegistry) -> None:
        self._loader = loader
        self._tasks = tasks

    def inspect(self, request: Request, cancel: Event) -> Iterator[InspectionStep]:
        return self._run_on_engine(lambda engine: inspect(engine, request, cancel), cancel)

    def compare(self, request: CompareRequest, cancel: Event) -> Iterator[Comparison]:
        return self._run_on_engine(lambda engine: compare(engine, request, cancel), cancel)

    def _run_on_engine(self, analyze: Callable[[Engine], Iterator[Step]], cancel: Event) -> Iterator[Step]:
        with self._tasks.track(cancel):
            engine = self._loader.ready().engine
            yield from run_in_thread(lambda: analyze(engine), cancel)
