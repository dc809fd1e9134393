"""Interface of the Library page: documents with the size of their KV, their passages, and changes to them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from store.types import Chunk, Document, Excerpt


@dataclass(frozen=True, slots=True)
class IngestProgress:
    name: str
    stage: str  # 'waiting', 'parsed', 'chunked', 'embedded', 'indexed', 'prefilled', 'done' or 'failed'
    done: int
    total: int
    message: str = ""  # an error or a warning for the user
    document_id: str = ""  # once the file is in the library
    unchanged: bool = False  # the document was in the library, or is re-indexed elsewhere


@dataclass(frozen=True, slots=True)
class DocumentUsage:
    """One document with the size of its chunk KV; a path over two documents counts for both."""

    document: Document
    bytes_by_tier: dict[str, int] | None  # by 'device', 'host' and 'disk'; None until it is known
    needs_rechunk: bool = False  # it was chunked with other settings than the current ones

    @property
    def kv_bytes(self) -> int:
        """The bytes in the tier that has most of the KV; chunks that only another tier has are not counted."""
        return max((self.bytes_by_tier or {}).values(), default=0)


@dataclass(frozen=True, slots=True)
class Passage:
    chunk: Chunk
    tokens: int  # in the primary model
    tier: str  # the fastest that has its KV; '' if none has


@dataclass(frozen=True, slots=True)
class WatchedChange:
    """What followed a change of a file in a watched folder."""

    id: str
    at: float  # seconds since the epoch
    name: str  # of the file
    kind: str  # 'added', 'replaced' or 'undone'
    can_undo: bool


@dataclass(frozen=True, slots=True)
class WatchedFolder:
    """A folder whose files are documents."""

    path: str
    num_files: int
    is_missing: bool  # e.g. on a disk that is not mounted
    errors: tuple[str, ...]  # names of files that could not be added, with the reasons
    gone: tuple[str, ...]  # ids of documents whose files were deleted
    changes: tuple[WatchedChange, ...] = ()  # newest first


class LibraryService(Protocol):
    """Shows and changes the documents. Every error with a message for users is a KVScopeError."""

    def list_with_usage(self) -> list[DocumentUsage]:
        """Return all documents, newest first, without waiting for sizes; empty until the library is open."""

    def passages(self, document_id: str, start: int, count: int) -> list[Passage]:
        """Return at most `count` passages from index `start`, in reading order."""

    def suggested_questions(self, document_ids: Sequence[str], limit: int) -> list[str]:
        """Return at most `limit` questions that the texts of documents suggest, from each document in turn.

        Empty until the library is open.
        """

    def bytes_freed_by_delete(self, document_ids: Sequence[str]) -> int:
        """Return the bytes of KV in all tiers that deleting these documents would free."""

    def excerpt(self, chunk_id: str) -> Excerpt: ...  # raises NoSuchDocument
    def rename(self, document_id: str, name: str) -> Document: ...  # raises NoSuchDocument

    def add_to_collection(self, document_ids: Sequence[str], name: str) -> None:
        """Add documents to a collection, which exists as long as a document is in it."""

    def remove_from_collection(self, document_ids: Sequence[str], name: str) -> None: ...

    def collection_settings(self, name: str) -> dict[str, Any]:
        """Return what is remembered for questions in a collection; the caller validates it. Empty if nothing is."""

    def remember_settings(self, name: str, values: Mapping[str, Any]) -> None:
        """Remember values of settings for an existing collection; empty: forget them."""

    def copy(self, document_id: str, target: Path) -> None:
        """Write a document to a file, so that it can be restored. Raises NoSuchDocument, ExportFailed or StoreFull."""

    def restore(self, source: Path) -> None:
        """Add the document of such a file again, unless it is in the library; its vectors follow in the background.

        Its name may get a number to stay unique. Raises ImportFailed, LibraryFull or StoreFull.
        """

    def reindex(self, document_ids: Sequence[str], cancel: Event) -> Iterator[list[IngestProgress]]:
        """Chunk, embed and prefill documents again; each is unchanged until its new chunks are complete."""
