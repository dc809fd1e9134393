"""The nouns of the store and the doors into it. Importing this imports no database and no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Document:
    """One file that a person added."""

    id: str  # sha256 of the file's bytes, hex: the same bytes are the same document
    name: str  # for display only: no folders, no control characters, no other document's
    size_bytes: int
    num_pages: int | None  # None where the format has no pages
    num_chunks: int
    added_at: float  # seconds since the epoch
    warning: str = ""  # what a person should know of its text: sentences, e.g. about pages without any
    chunk_tokens: int | None = None  # most tokens of a chunk when it was cut; None if that was before it was kept
    chunk_overlap: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one document's text: `text == document_text[start:end]`."""

    id: str  # f"{document id}-{number}"; f"{document id}.{cut}-{number}" once the document was cut anew
    document_id: str
    document_name: str
    index: int  # from 0, in reading order
    page: int | None  # the page of its first character, from 1
    start: int  # characters into the document's text
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A chunk where it stands: its pages, or what is around it. `text[start:end] == chunk.text`.

    pages  (first character in `text`, number) of each page that it shows, ascending; none without pages
    """

    chunk: Chunk
    text: str
    start: int
    end: int
    truncated_before: bool  # the page, or a document without pages, began earlier
    truncated_after: bool
    pages: tuple[tuple[int, int], ...] = ()

    def page_at(self, character: int) -> int | None:
        """Return the number of the page that a character of `text` stands on."""
        return max((number for start, number in self.pages if start <= character), default=None)


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk found for a question, as one stage of a search knows it."""

    chunk: Chunk
    score: float  # orders the hits of one stage, means nothing alone: fusion of the rankings, or the reranker's score
    similarity: float | None  # cosine of the vector search, 1 is identical; None if only the words matched
    matched_words: bool  # found by the lexical search as well, or only by it; False in the first stage, before it


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one file has come. `stage` is 'parsed', 'chunked', 'embedded' or 'indexed', in this order.

    A document that is cut anew is not parsed again: it begins with 'chunked'.
    """

    stage: str
    done: int
    total: int
    document: Document | None = None  # set once the document is in the library
    warning: str = ""  # sentences, e.g. 'It is already in the library as notes.md.'


class Finder(Protocol):
    """Where an engine finds passages: by a search, from its first stage on, or by what they are called."""

    def retrieve_stages(self, question: str, top_k: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        """Yield at most `top` hits after each stage of the search, best first; at least one stage, the last is final.

        documents  ids of the documents to look in; none for all, and one that is not there finds nothing

        Every stage ranks all it knows anew: hits may come, go and change places from one to the next. Nothing is held
        between two stages, so a caller may take its time, or leave. Raises ValueError at the first step if top is
        below 1.
        """
        ...

    def documents(self) -> list[Document]:
        """Return all documents, newest first."""
        ...

    def chunks(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks in reading order; empty if it is not there."""
        ...

    def chunks_by_id(self, ids: Sequence[str]) -> dict[str, Chunk]:
        """Return those of the chunks that are there, by their id."""
        ...


class BlobStore(Protocol):
    """Keeps tensors by key. Losing one is a miss, never an error to the user, and never a wrong answer."""

    def put(self, key: str, tensors: dict[str, Tensor], note: str = "") -> None:
        """Write all tensors and the note, or nothing. Raises StoreFull; ValueError if the key is not a hex digest."""
        ...

    def get(self, key: str) -> dict[str, Tensor]:
        """Return the tensors bit for bit. Raises KeyError if absent, torn or altered."""
        ...

    def __contains__(self, key: str) -> bool: ...

    def delete(self, key: str) -> None:
        """Forget a key; nothing happens if it is not there."""
        ...

    def notes(self) -> dict[str, str]:
        """Return every key with its note."""
        ...

    def annotate(self, notes: dict[str, str]) -> None:
        """Put other notes to blobs that are there, all or none. Raises StoreFull."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of all blobs on disk."""
        ...
