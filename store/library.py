"""The library as the backend uses it: `store.document_library` in this process, or one on a server."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from store.ingest.chunker import ChunkConfig
from store.types import Chunk, Document, Excerpt, Finder, Progress


@dataclass(frozen=True, slots=True)
class LibraryInfo:
    """How a library chunks and embeds, and what happened to it."""

    chunking: ChunkConfig  # of new documents
    embedder: str  # name of the embedding model
    embedder_parameters: int
    embedder_max_tokens: int
    notice: str  # of damage that was found when it was opened, in sentences for the user


class Library(Finder, Protocol):
    """Whole documents, for any number of threads. A document appears as a whole or not at all.

    Iterators of progress may be closed early: then nothing has changed.
    """

    def info(self) -> LibraryInfo: ...

    def chunks(self, document_id: str, limit: int = -1) -> list[Chunk]:
        """Return a document's first chunks in reading order, all by default; empty for an unknown id."""

    def add(self, path: Path, name: str) -> Iterator[Progress]:
        """Parse, chunk, embed and index one file, yielding progress.

        A file whose bytes are in the library already yields one step with a warning. Raises UnreadableDocument,
        DocumentTooLarge, LibraryFull or StoreFull.
        """

    def reindex(self, document_id: str) -> Iterator[Progress]:
        """Re-chunk and re-embed a document with the current chunking, yielding progress.

        Searches use the old version until the new one is complete. A document that is being re-indexed already yields
        one step with a warning. Raises NoSuchDocument or StoreFull.
        """

    def documents_without_vectors(self) -> list[Document]:
        """Return the documents that only words find, because vectors are missing; `embed_missing` computes them."""

    def embed_missing(self) -> Generator[Progress, None, None]:
        """Compute missing vectors, yielding progress after each step. Raises StoreFull."""

    def rename(self, document_id: str, name: str) -> Document:
        """Rename a document, with a number if the name exists. Raises NoSuchDocument or StoreFull."""

    def add_to_collection(self, document_ids: Sequence[str], name: str) -> None:
        """Add documents to a collection, which exists as long as a document is in it; a blank name changes nothing.

        A name that differs from an existing one by capitals only is the same. Raises StoreFull.
        """

    def remove_from_collection(self, document_ids: Sequence[str], name: str) -> None:
        """Remove documents from a collection; they stay in the library. Raises StoreFull."""

    def excerpt(self, chunk_id: str) -> Excerpt:
        """Return a chunk with the text around it. Raises NoSuchDocument if it was deleted or re-chunked."""

    def has_pages(self, document_id: str) -> bool:
        """Return whether the pages of a document can be shown: those of PDF files that were added by this version."""

    def page_picture(self, chunk_id: str, page: int, quote: str) -> bytes | None:
        """Return a page, from 1, of a chunk's document as PNG with a quote marked; None if it cannot be shown.

        Raises NoSuchDocument if the chunk was deleted or re-chunked.
        """

    def copy(self, document_id: str) -> bytes:
        """Return a document as an export, with its original. Raises NoSuchDocument, ExportFailed or StoreFull."""

    def restore(self, source: Path) -> None:
        """Add the document of a copy, unless it is in the library; `embed_missing` computes its vectors.

        Raises ImportFailed, LibraryFull or StoreFull.
        """

    def delete(self, document_id: str) -> list[Chunk]:
        """Delete a document from every index; return the chunks it had (empty for an unknown id).

        Raises StoreFull, with the document unchanged.
        """

    def close(self) -> None: ...
