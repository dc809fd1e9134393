"""The backend as the UI and the HTTP server see it. `backend.local` implements it; tests use a fake."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO, Protocol

from backend.interface.cache import CacheService
from backend.interface.library import IngestProgress, LibraryService
from backend.interface.models import ModelService
from engine.analysis.comparison import CompareRequest, Comparison
from engine.analysis.inspection import InspectionStep
from engine.method import MethodInfo
from engine.request import Answer, ContextBudget, Request
from store.feedback import Feedback
from store.types import Document, Hit


@dataclass(frozen=True, slots=True)
class Status:
    ready: bool
    message: str  # 'Downloading the model', 'SmolLM2-135M-Instruct, bf16 on the CPU (AVX-512 BF16)', or an error
    failed: bool = False
    progress: float | None = None  # fraction of loading that is complete, 0 to 1
    adding_samples: bool = False  # the engine is ready while the sample documents are still being added


@dataclass(frozen=True, slots=True)
class TierUsage:
    tier: str  # 'device', 'host' or 'disk'
    size_bytes: int
    budget_bytes: int


class Backend(Protocol):
    """Every error with a message for users is a KVScopeError. Calls made before the models are loaded raise
    ModelNotReady, or LoadingFailed if loading failed, instead of waiting. Setting a `cancel` event stops a computation
    within a layer or a token, and an ingest after its current step.
    """

    @property
    def cache(self) -> CacheService: ...
    @property
    def library(self) -> LibraryService: ...
    @property
    def feedback(self) -> Feedback: ...  # ratings of answers

    @property
    def models(self) -> ModelService: ...

    def status(self) -> Status: ...
    def notices(self) -> list[str]: ...  # sentences about damaged data and its repair; empty if all is well
    def methods(self) -> list[MethodInfo]: ...  # in display order
    def documents(self) -> list[Document]: ...  # newest first; empty until the library is open

    def ingest(self, files: list[tuple[Path, str]], cancel: Event) -> Iterator[list[IngestProgress]]:
        """Add files, given as path and display name, one after the other; yield the progress of every file.

        Several calls and re-indexing run at the same time, step by step in turn. Those of the session with the fewest
        documents running are next, if `cancel` is a SessionEvent.
        """

    @property
    def outgoing_note(self) -> str: ...  # what questions send to other machines, in sentences; empty if nothing

    @property
    def accepts_web_pages(self) -> bool: ...

    def ingest_web_page(self, url: str, cancel: Event) -> Iterator[list[IngestProgress]]:
        """Download a page from a public address and add it; yield its progress as `ingest` does."""

    def export(self, target: IO[bytes]) -> None:
        """Write all documents and the settings to a zip file, see `store.catalog.transfer`."""

    def delete(self, document_id: str) -> bool:
        """Delete a document, its chunks and their KV; return whether there was one of this id."""

    def has_pages(self, document_id: str) -> bool: ...  # whether `page_picture` can show the pages of a document

    def page_picture(self, chunk_id: str, page: int, quote: str) -> bytes | None:
        """Return a page, from 1, of a passage's document as PNG with a quote marked; None if it cannot be shown.

        Raises NoSuchDocument.
        """

    def tier_usage(self) -> list[TierUsage]: ...  # fastest tier first; empty until the engine is ready

    def clear(self) -> None:
        """Delete all chunk KV. Documents stay; later requests recompute the KV they need."""

    def budget(self, request: Request) -> ContextBudget:
        """Return how a request would divide the model's context, without running retrieval."""

    def ask(self, request: Request, cancel: Event) -> Iterator[Answer]:
        """Answer a question from the documents, yielding the answer so far.

        Each answer is a new object, and its text only grows. The last one is in the state 'stopped' if cancelled.
        """

    def search(self, request: Request) -> list[Hit]:
        """Return the passages found for a question, best first, without answering it."""

    def inspect(self, request: Request, cancel: Event) -> Iterator[InspectionStep]:
        """Select tokens for a question without answering it; the last step contains the result."""

    def compare(self, request: CompareRequest, cancel: Event) -> Iterator[Comparison]:
        """Run a question through several methods, yielding the comparison after each run.

        The last one is in the state 'stopped' if cancelled.
        """

    def metrics_text(self) -> str:
        """Return counters over the requests from the UI and both APIs in the Prometheus text format 0.0.4."""
