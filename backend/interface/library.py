"""What the Library page asks of the house: documents with what they take, their passages, and changes to them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Protocol

from store.types import Chunk, Document, Excerpt


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """How far one file has come. `stage`: parsed, chunked, embedded, prefilled, done, or failed."""

    name: str
    stage: str
    done: int
    total: int
    message: str = ""  # an error or a warning, for a person


@dataclass(frozen=True, slots=True)
class DocumentUsage:
    """One document with what is computed from it.

    tiers     bytes of keys and values by tier ('device', 'host', 'disk'), of every path through its passages; so a
              path over two documents counts for both. None while they are still being counted
    outdated  it was cut with other settings than those of today
    """

    document: Document
    tiers: dict[str, int] | None
    needs_rechunk: bool = False

    @property
    def size_bytes(self) -> int:
        return sum((self.tiers or {}).values())


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as the primary model reads it. `tier`: the fastest that has its keys and values; '' if none has."""

    chunk: Chunk
    tokens: int
    tier: str


class LibraryService(Protocol):
    """The documents. Every error meant for a person is a KVScopeError."""

    def list_with_usage(self) -> list[DocumentUsage]:
        """Return all documents, newest first; empty until the library is open. Answers at once, counted or not."""
        ...

    def passages(self, document_id: str, start: int, count: int) -> list[Passage]:
        """Return at most `count` passages from number `start`, in reading order; empty if there are none."""
        ...

    def excerpt(self, chunk_id: str) -> Excerpt:
        """Return a passage where it stands. Raises NoSuchDocument."""
        ...

    def bytes_freed_by_delete(self, document_ids: Sequence[str]) -> int:
        """Return the bytes of keys and values in all tiers that deleting these documents would free."""
        ...

    def rename(self, document_id: str, name: str) -> Document:
        """Show a document under another name everywhere. Raises NoSuchDocument."""
        ...

    def reindex(self, document_ids: Sequence[str], cancel: Event) -> Iterator[list[IngestProgress]]:
        """Cut, embed and prefill documents anew, one after the other; each step yields the state of all of them.

        A document stays as it was until its new cut is complete.
        """
        ...
