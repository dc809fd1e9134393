"""The backend as the UI and the HTTP server see it. `backend.local` implements it; tests use a fake."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Protocol

from backend.interface.analysis import CompareService, InspectService
from backend.interface.cache import CacheService
from backend.interface.library import IngestProgress, LibraryService
from backend.interface.models import ModelService
from engine.method import MethodInfo
from engine.request import Answer, ContextBudget, Request
from store.types import Document

MAX_CONCURRENT_REQUESTS = 16  # including queued ones; the engine runs one at a time


@dataclass(frozen=True, slots=True)
class Status:
    """State of the engine.

    message         'Downloading the model', 'SmolLM2-135M-Instruct, bf16 on the CPU (AVX-512 BF16)', or an error
    progress        fraction of loading that is complete, 0 to 1
    adding_samples  the engine is ready while the sample documents are still being added
    """

    ready: bool
    message: str
    failed: bool = False
    progress: float | None = None
    adding_samples: bool = False


@dataclass(frozen=True, slots=True)
class TierUsage:
    """Chunk KV in one tier. `tier`: 'device', 'host' or 'disk'."""

    tier: str
    size_bytes: int
    budget_bytes: int


class MetricsService(Protocol):
    """Counters over the requests from the UI, the Gradio API and the HTTP API."""

    def render(self) -> str:
        """Return all metrics in the Prometheus text format 0.0.4."""
        ...


class Backend(Protocol):
    """Models, documents and engine.

    Every error with a message for users is a KVScopeError. Calls made before the models are loaded raise
    ModelNotReady, or LoadingFailed if loading failed, instead of waiting.
    """

    @property
    def cache(self) -> CacheService: ...

    @property
    def library(self) -> LibraryService: ...

    @property
    def models(self) -> ModelService: ...

    @property
    def inspection(self) -> InspectService: ...

    @property
    def comparison(self) -> CompareService: ...

    @property
    def metrics(self) -> MetricsService: ...

    def status(self) -> Status:
        """Return the state of the engine."""
        ...

    def methods(self) -> list[MethodInfo]:
        """Return the available methods in display order."""
        ...

    def documents(self) -> list[Document]:
        """Return all documents, newest first; empty until the library is open."""
        ...

    def ingest(self, files: list[tuple[Path, str]], cancel: Event) -> Iterator[list[IngestProgress]]:
        """Add files to the library, one after the other.

        Parameters
        ----------
        files : list of (Path, str)
            Path and display name of each file.
        cancel : Event
            Stops the ingest after the current step.

        Yields
        ------
        list of IngestProgress
            The progress of every file.
        """
        ...

    def delete(self, document_id: str) -> None:
        """Delete a document, its chunks and their KV. Raises NoSuchDocument."""
        ...

    def tier_usage(self) -> list[TierUsage]:
        """Return the usage of each cache tier, fastest first; empty until the engine is ready."""
        ...

    def clear(self) -> None:
        """Delete all chunk KV. Documents stay; later requests recompute the KV they need."""
        ...

    def budget(self, request: Request) -> ContextBudget:
        """Return how a request would divide the model's context, without running retrieval."""
        ...

    def ask(self, request: Request, cancel: Event) -> Iterator[Answer]:
        """Answer a question from the documents.

        Parameters
        ----------
        request : Request
            The question, its method and its options.
        cancel : Event
            Stops the computation within a layer or a token; the answer then ends in the state 'stopped'.

        Yields
        ------
        Answer
            The answer so far. Each one is a new object; its text only grows.

        Raises
        ------
        KVScopeError
            If the models are not loaded, or the request is invalid.
        """
        ...
