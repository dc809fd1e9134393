"""The library: whole documents over the catalog (text, terms) and the vector index.

A document appears as a whole or not at all. It is inserted as pending before its first vector, and listed by the
transaction that also inserts its chunks and terms. If `add` ends early the rest is deleted, after a crash by the next
opening.

Re-chunking works on the text of the stored chunks, next to the old version. Searches use the old version until one
transaction replaces it. Until then the new vectors are pending, afterwards the old ones; if re-chunking ends early,
even by a crash, one complete version remains.
"""

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from tokenizers import Tokenizer

from store.catalog.catalog import Catalog
from store.catalog.document_text import gaps_before, make_chunks
from store.ingest import ParseLimits, parse, read_file
from store.ingest.chunker import ChunkConfig, chunk_config_of, split_with_progress
from store.ingest.language import language_warning
from store.library.pending import PendingDocuments
from store.names import clean_name
from store.retrieval.embedder import Embedder
from store.retrieval.retriever import Reranker, Retriever
from store.retrieval.vectors import VectorIndex
from store.types import Chunk, Document, Excerpt, Hit, Progress


@dataclass(frozen=True)
class LibraryConfig:
    """How documents are indexed.

    chunking      chunk size and overlap of new documents; existing ones keep their chunks until re-indexed
    limits        sizes above which a file is rejected
    batch_chunks  chunks embedded between two progress steps, at which the caller can cancel
    """

    chunking: ChunkConfig = field(default_factory=ChunkConfig)
    limits: ParseLimits = field(default_factory=ParseLimits)
    batch_chunks: int = 8

    def __post_init__(self) -> None:
        if self.batch_chunks < 1:
            raise ValueError(f"batch_chunks must be at least 1, got {self.batch_chunks}")


class DocumentLibrary:
    """The documents of one folder, for any number of threads and one process (hold a FolderLock).

    root       folder for the catalog and the vectors; created if missing
    tokenizer  of the main model: it counts a chunk's tokens
    clock      seconds since the epoch
    reranker   ranks the hits in a last retrieval stage; None for no such stage
    """

    def __init__(
        self,
        root: Path,
        tokenizer: Tokenizer,
        embedder: Embedder,
        config: LibraryConfig | None = None,
        clock: Callable[[], float] = time.time,
        reranker: Reranker | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._embedder = embedder
        self._config = config or LibraryConfig()
        self._clock = clock
        self._lock = threading.RLock()  # guards catalog and vectors; not held while parsing or embedding
        self._catalog = Catalog(root / "library.sqlite3")
        self._vectors = VectorIndex(root / "vectors")
        self._pending = PendingDocuments(self._catalog, self._vectors, self._lock)
        self._retriever = Retriever(self._catalog, self._vectors, self._lock, embedder, reranker)
        for owner in self._catalog.pending_owners():
            self._pending.try_purge(owner)
        if self._catalog.pending_owners():
            return  # the disk is full: serve the existing documents
        if self._vectors.fingerprint != embedder.fingerprint or len(self._vectors) != self._catalog.count_segments():
            self._rebuild_vectors(embedder.fingerprint)

    def add(self, path: Path, name: str) -> Iterator[Progress]:
        """Parse, chunk, embed and index one file, yielding progress; closing the iterator early leaves no trace.

        The stages count files, characters, chunks and files. A file whose bytes are in the library already yields
        one step with a warning. Raises UnreadableDocument, DocumentTooLarge or StoreFull.
        """
        name = clean_name(name)
        data = read_file(path, name, self._config.limits)
        document_id = sha256(data).hexdigest()
        with self._lock:
            existing = self._catalog.document(document_id)
            claimed = existing is None and self._pending.claim(document_id)
        if not claimed:
            reason = f"It is already in the library as {existing.name}." if existing else "It is already being added."
            yield Progress("indexed", 1, 1, existing, reason)
            return
        try:
            yield from self._add(data, document_id, name)
        finally:
            self._pending.release(document_id)

    def reindex(self, document_id: str) -> Iterator[Progress]:
        """Re-chunk and re-embed a document with the current chunking, yielding progress.

        Searches use the old version until the new one is complete; closing the iterator early keeps the old one. A
        document that is being re-indexed already yields one step with a warning. Raises NoSuchDocument or StoreFull.
        """
        with self._lock:
            self._catalog.owner(document_id)
            document = self._catalog.document(document_id)
            claimed = self._pending.claim(document_id)
        if document is None or not claimed:
            yield Progress("indexed", 1, 1, document, "It is already being re-indexed.")
            return
        try:
            self._pending.purge_stale(document_id)
            yield from self._rechunk(document)
        finally:
            self._pending.release(document_id)

    def rename(self, document_id: str, name: str) -> Document:
        """Rename a document, with a number if the name exists. Raises NoSuchDocument or StoreFull."""
        with self._lock:
            return self._catalog.rename(document_id, clean_name(name))

    def needs_rechunk(self, document: Document) -> bool:
        """Return whether a document was chunked with another config; an unknown one counts as the default."""
        return chunk_config_of(document) != self._config.chunking

    def text(self, document_id: str) -> str:
        """Return a document's text up to its last chunk: `text[chunk.start:chunk.end] == chunk.text`.

        Raises NoSuchDocument.
        """
        with self._lock:
            return self._catalog.parsed(document_id).text

    def excerpt(self, chunk_id: str) -> Excerpt:
        """Return a chunk with the text around it. Raises NoSuchDocument if it was deleted or re-chunked."""
        with self._lock:
            return self._catalog.excerpt(chunk_id)

    def documents(self) -> list[Document]:
        """Return all documents, newest first."""
        with self._lock:
            return self._catalog.documents()

    def chunks(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks in reading order; empty for an unknown id."""
        with self._lock:
            return self._catalog.chunks(document_id)

    def chunks_by_id(self, ids: Sequence[str]) -> dict[str, Chunk]:
        """Return the existing chunks among these ids, by id."""
        with self._lock:
            return self._catalog.chunks_by_id(ids)

    def retrieve_stages(self, question: str, top_k: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        """Yield the hits after each retrieval stage (see `store.types.Finder` and `store.retrieval.retriever`)."""
        return self._retriever.retrieve_stages(question, top_k, documents)

    def search(self, question: str, top_k: int, documents: Sequence[str] = ()) -> list[Hit]:
        """Return the final hits of `retrieve_stages`: deterministic, at most `top_k`, best first."""
        *_, final = self.retrieve_stages(question, top_k, documents)
        return final

    def delete(self, document_id: str) -> list[Chunk]:
        """Delete a document from every index; return the chunks it had (empty for an unknown id).

        Raises StoreFull, with the document unchanged.
        """
        with self._lock:
            if self._catalog.document(document_id) is None:
                return []
            chunks = self._catalog.chunks(document_id)
            owner = self._catalog.owner(document_id)
            self._catalog.hide(document_id)
            self._pending.try_purge(owner)
            return chunks

    def close(self) -> None:
        with self._lock:
            self._vectors.close()
            self._catalog.close()

    def _add(self, data: bytes, document_id: str, name: str) -> Iterator[Progress]:
        parsed = parse(data, name, self._config.limits)
        chunking = self._config.chunking
        warning = " ".join(filter(None, [_as_sentence(parsed.warning), language_warning(parsed.text)]))
        yield Progress("parsed", 1, 1, warning=warning)
        spans = yield from split_with_progress(parsed.text, self._tokenizer, chunking)
        draft = Document(
            document_id,
            name,
            size_bytes=len(data),
            num_pages=parsed.num_pages,
            num_chunks=0,
            added_at=self._clock(),
            warning=warning,
            chunk_tokens=chunking.tokens,
            chunk_overlap=chunking.overlap,
        )
        self._pending.purge_stale(document_id)
        with self._lock:
            draft = self._catalog.insert_pending(draft, parsed.page_starts)
        complete = False
        try:
            chunks = make_chunks(draft, document_id, parsed, spans)
            num_segments = yield from self._embed(document_id, chunks)
            with self._lock:
                self._catalog.complete(document_id, chunks, gaps_before(parsed.text, chunks), num_segments)
                complete = True
                document = self._catalog.document(document_id)
        finally:
            if not complete:
                self._pending.try_purge(document_id)
        yield Progress("indexed", 1, 1, document, warning)

    def _rechunk(self, document: Document) -> Iterator[Progress]:
        chunking = self._config.chunking
        with self._lock:
            parsed = self._catalog.parsed(document.id)
        spans = yield from split_with_progress(parsed.text, self._tokenizer, chunking)
        with self._lock:
            owner = self._catalog.insert_pending_rechunk(document.id)
        pending_owner = owner
        try:
            chunks = make_chunks(document, owner, parsed, spans)
            num_segments = yield from self._embed(owner, chunks)
            draft = replace(
                document,
                warning=document.warning or language_warning(parsed.text),  # earlier versions stored none
                chunk_tokens=chunking.tokens,
                chunk_overlap=chunking.overlap,
            )
            gaps = gaps_before(parsed.text, chunks)
            with self._lock:
                pending_owner = self._catalog.replace_chunks(
                    draft, owner, chunks, gaps, parsed.page_starts, num_segments
                )
                rechunked = self._catalog.document(document.id)
        finally:
            self._pending.try_purge(pending_owner)
        yield Progress("indexed", 1, 1, rechunked, rechunked.warning if rechunked else "")

    def _embed(self, owner: str, chunks: Sequence[Chunk]) -> Generator[Progress, None, int]:
        """Embed chunks and add their vectors under `owner`, a batch per step; return the number of segments."""
        num_segments = 0
        for start in range(0, len(chunks), self._config.batch_chunks):
            batch = chunks[start : start + self._config.batch_chunks]
            segments = [(chunk.id, segment) for chunk in batch for segment in self._embedder.segments(chunk.text)]
            vectors = self._embedder.embed([segment for _, segment in segments])
            with self._lock:
                self._vectors.add(owner, [chunk_id for chunk_id, _ in segments], vectors)
            num_segments += len(segments)
            yield Progress("embedded", start + len(batch), len(chunks))
        return num_segments

    def _rebuild_vectors(self, fingerprint: str) -> None:
        self._vectors.clear()
        for document in self._catalog.documents():
            size_before = len(self._vectors)
            for _ in self._embed(self._catalog.owner(document.id), self._catalog.chunks(document.id)):
                pass
            self._catalog.set_segment_count(document.id, len(self._vectors) - size_before)
        self._vectors.mark_complete(fingerprint)


def _as_sentence(warning: str) -> str:
    return f"{warning}." if warning and not warning.endswith(".") else warning
