"""What the page needs from the rest of the house. `app.py` gives the real one, tests a small one."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Protocol

from backend.interface.cache import CacheService
from backend.interface.comparison import CompareService
from backend.interface.inspection import InspectService
from backend.interface.library import IngestProgress, LibraryService
from backend.interface.metrics import MetricsService
from backend.interface.models import ModelService
from engine.method import MethodInfo
from engine.request import Answer, ContextBudget, Request
from store.types import Document

MAX_CONCURRENT_REQUESTS = 16  # waiting ones included: the engine serves them one by one and can cancel one that waits


@dataclass(frozen=True, slots=True)
class Status:
    """One line about the engine, and whether it can answer."""

    ready: bool
    line: str  # 'Downloading the model', 'SmolLM2-135M-Instruct, bf16 on the CPU (AVX-512 BF16)', or an error
    failed: bool = False
    share: float | None = None  # of the loading that is done, 0 to 1; shown as a bar
    reading: bool = False  # the sample documents, which can be asked about one by one


@dataclass(frozen=True, slots=True)
class TierUsage:
    """What one tier keeps of the passages' keys and values. `tier`: device, host or disk, as in a Source."""

    tier: str
    size_bytes: int
    budget_bytes: int


class Backend(Protocol):
    """The engine and the library as the page sees them. Every error meant for a person is a KVScopeError."""

    @property
    def cache(self) -> CacheService: ...

    @property
    def library(self) -> LibraryService: ...

    @property
    def models(self) -> ModelService: ...

    @property
    def inspection(self) -> InspectService: ...

    @property
    def metrics(self) -> MetricsService: ...

    @property
    def comparison(self) -> CompareService: ...

    def status(self) -> Status: ...

    def methods(self) -> list[MethodInfo]:
        """Return the methods that a question may name, in the order to show them."""
        ...

    def documents(self) -> list[Document]: ...

    def ingest(self, files: list[tuple[Path, str]], cancel: Event) -> Iterator[list[IngestProgress]]:
        """Add (path, shown name) files one after the other; each step yields the state of all of them."""
        ...

    def delete(self, document_id: str) -> None: ...

    def tier_usage(self) -> list[TierUsage]:
        """Return the tiers of computed keys and values, the fastest first; empty until the engine is ready."""
        ...

    def clear(self) -> None:
        """Remove all computed keys and values; documents stay, and questions compute what they need."""
        ...

    def budget(self, request: Request) -> ContextBudget:
        """Return how a request would share out the model's context; texts are counted, nothing is searched for."""
        ...

    def ask(self, request: Request, cancel: Event) -> Iterator[Answer]:
        """Yield growing answers. After `cancel` is set the computation ends within a layer or a token."""
        ...
