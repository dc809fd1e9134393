"""Data types of the store, and protocols of what it gives and needs. Imports neither a database nor torch."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


PARSER_VERSION = 7  # raised when files should be parsed again
COLLECTION = "collection:"  # before a collection's name, where documents are chosen by their ids


@dataclass(frozen=True, slots=True)
class Document:
    """A file in the library."""

    id: str  # SHA-256 of the file's bytes, hex: equal bytes are one document
    name: str  # unique, for display only: no folders, no control characters
    size_bytes: int
    num_pages: int | None  # None if the format has no pages
    num_chunks: int
    added_at: float  # seconds since the epoch
    warning: str = ""  # sentences for the user, e.g. about pages without text
    chunk_tokens: int | None = None  # chunk size when it was chunked; None in libraries of an earlier version
    chunk_overlap: int | None = None  # tokens
    parser_version: int | None = None  # PARSER_VERSION when it was parsed; None in libraries of an earlier version
    language: str = ""  # 'German', or a script such as 'Cyrillic', see `store.ingest.language`; '' if it is not clear
    collections: tuple[str, ...] = ()  # names in alphabetical order

    def is_in(self, scope: Sequence[str]) -> bool:
        """Return whether a scope has it: ids of documents, and collections after COLLECTION; empty: all documents."""
        return not scope or any(key in scope for key in (self.id, *(COLLECTION + name for name in self.collections)))

    @property
    def is_outdated(self) -> bool:
        """Whether an earlier version parsed it, so that tables and headings may be missing."""
        return self.parser_version is None or self.parser_version < PARSER_VERSION


@dataclass(frozen=True, slots=True)
class Chunk:
    """A slice of one document's text: `text == document_text[start:end]`."""

    id: str  # f"{document id}-{index}", or f"{document id}.{generation}-{index}" after re-chunking
    document_id: str
    document_name: str
    index: int  # from 0, in reading order
    page: int | None  # page of its first character, from 1
    start: int  # characters into the document's text
    end: int
    text: str
    context: str = ""  # document name, headings and caption above it; empty in libraries of an earlier version

    @property
    def subject(self) -> str:
        """What the text is about: its context, or the document's name."""
        return self.context or self.document_name

    @property
    def passage(self) -> str:
        """The text that is searched and read: the chunk after its context."""
        return f"{self.context}\n\n{self.text}" if self.context else self.text


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A chunk with the text of its pages, or the text around it: `text[start:end] == chunk.text`."""

    chunk: Chunk
    text: str
    start: int
    end: int
    truncated_before: bool  # whether the page, or the document without pages, continues beyond `text`
    truncated_after: bool
    pages: tuple[tuple[int, int], ...] = ()  # (first character in `text`, page number), ascending

    def page_at(self, character: int) -> int | None:
        """Return the page number at a character of `text`."""
        return max((number for start, number in self.pages if start <= character), default=None)


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk retrieved for a question, scored by one stage of the retrieval."""

    chunk: Chunk
    score: float  # ranks the hits of one stage only: the fused score, or the reranker's
    similarity: float | None  # cosine of the vector search, at most 1; None if the chunk was not searched by vector
    matched_words: bool  # whether the lexical search found it; False in the first stage, which precedes that search


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of indexing one file. Re-chunking starts with the stage 'chunked'."""

    stage: str  # 'parsed', 'chunked', 'embedded' or 'indexed', which count pages, characters, chunks and files
    done: int
    total: int
    document: Document | None = None  # set once the document is in the library
    warning: str = ""  # sentences, e.g. 'It is already in the library as notes.md.'
    unchanged: bool = False  # the document was in the library, or is re-indexed elsewhere


class Finder(Protocol):
    """The library as an engine sees it: staged retrieval, and lookup of documents and chunks."""

    def retrieve_stages(self, question: str, top_k: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        """Yield at most `top_k` hits after each retrieval stage, best first; at least one list, and the last is final.

        Each stage re-ranks everything, so hits may come, go and move between stages. No lock is held between two
        stages; the caller may pause or stop early. `documents` are the ids of those to search, empty for all; unknown
        ids match nothing. Raises ValueError at the first step if `top_k` is below 1.
        """

    def documents(self) -> list[Document]:
        """Return all documents, newest first."""

    def chunks(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks in reading order; empty for an unknown id."""

    def chunks_by_id(self, ids: Sequence[str]) -> dict[str, Chunk]:
        """Return the existing chunks among these ids, by id."""


class Embedder(Protocol):
    """Maps texts to vectors of length 1, so that a dot product is a cosine; see `store.retrieval.embedding_model`.

    A model silently truncates long texts. A chunk is therefore embedded as `segments` that fit the model, and its
    similarity is that of its best segment (`store.retrieval.segments`).
    """

    name: str
    is_english: bool  # whether it hardly knows other languages

    @property
    def num_parameters(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...  # that it reads at most

    @property
    def fingerprint(self) -> str:
        """Identifies the model; vectors of different ones must not share an index. Any precision ranks alike."""

    def segments(self, text: str) -> list[str]:
        """Split a text into segments that fit the model, in order; at least one."""

    def truncate_left(self, text: str) -> str:
        """Return the longest end of a text that fits the model: a question usually follows a pasted text."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of segments: float32 [n, D], each row of length 1."""

    def embed_question(self, question: str) -> np.ndarray:
        """Return the vector of a question, float32 [D] of length 1."""


class Reranker(Protocol):
    """Scores chunks by reading them with the question; see `store.retrieval.reranker`."""

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return the relevance of each text to the question; higher is better."""


class BlobStore(Protocol):
    """Tensors by key, as a cache: a lost blob is a miss, never an error or a wrong answer."""

    def put(self, key: str, tensors: dict[str, Tensor], note: str = "") -> None:
        """Write all tensors and the note, or nothing. Raises StoreFull; ValueError if the key is not a hex digest."""

    def get(self, key: str) -> dict[str, Tensor]:
        """Return the tensors bit for bit. Raises KeyError if absent, truncated or altered."""

    def delete(self, key: str) -> None:
        """Delete a key; unknown keys are ignored."""

    def notes(self) -> dict[str, str]:
        """Return the note of every key."""

    def annotate(self, notes: dict[str, str]) -> None:
        """Replace the notes of existing blobs, all or none. Raises StoreFull."""


PRESENT = -1  # of `SharedBlobStore.claim`


class SharedBlobStore(Protocol):
    """Tensors by key on a server that several processes share. All methods raise KVServerUnavailable."""

    address: str  # host and port, for the user

    def warning(self) -> str:
        """Return what is unsuitable in the server's configuration, as sentences for the user; empty if nothing is."""

    def claim(self, keys: Sequence[str], lease_ms: int) -> list[int]:
        """Say for each key whether to read it, to compute it, or to wait for another process.

        Returns PRESENT; or 0 if the key is absent and this process has the lease to compute it now; or the
        milliseconds that another process's lease still lasts.
        """

    def read(self, keys: Sequence[str]) -> Generator[tuple[str, bytes]]:
        """Yield each key with its value, empty if it is absent. All are requested at once; close the generator."""

    def decode(self, key: str, value: bytes) -> dict[str, Tensor] | None:
        """Return the tensors of a value; None if it is damaged."""

    def put(self, key: str, tensors: dict[str, Tensor]) -> bool:
        """Write a value; return False if there is one already, or the key was deleted lately."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete keys, and refuse to write them for longer than any lease lasts."""

    def discard(self, keys: Sequence[str]) -> None:
        """Delete damaged values; they may be written again."""

    def close(self) -> None:
        """Close all connections."""
