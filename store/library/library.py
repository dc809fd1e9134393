"""The library: documents as a whole, over the catalogue (text, words) and the vectors.

A document appears whole or not at all. It is entered as pending before its first vector, and shown by the one
transaction that also enters its chunks and words; whatever ends an `add` early removes the rest, and what a killed
process could not remove, the next opening does. Vectors that do not fit the embedder are made anew from the text.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from tokenizers import Tokenizer

from store.catalog.catalog import Catalog
from store.catalog.fulltext import make_chunks, gaps_before
from store.ingest import ParseLimits, parse, read_file
from store.ingest.chunker import ChunkConfig, chunk_config_of, split_with_progress
from store.ingest.language import language_warning
from store.library.pending import Pending
from store.library.rechunk import Rechunker
from store.names import clean_name
from store.retrieval.embed_batches import BatchEmbedder
from store.retrieval.embedder import Embedder
from store.retrieval.retriever import Reranker, Retriever
from store.retrieval.vectors import VectorIndex
from store.types import Chunk, Document, Excerpt, Hit, Progress


@dataclass(frozen=True)
class LibraryConfig:
    """chunking     how a text is cut; documents that are already there keep their cuts
    limits       what is too large to be taken
    batch_chunks chunks embedded between two steps of progress, where a person can cancel"""

    chunking: ChunkConfig = field(default_factory=ChunkConfig)
    limits: ParseLimits = field(default_factory=ParseLimits)
    batch_chunks: int = 8

    def __post_init__(self) -> None:
        if self.batch_chunks < 1:
            raise ValueError(f"batch_chunks must be at least 1, got {self.batch_chunks}")


class DocumentLibrary:
    """A Library in one folder, for any number of threads and one process (hold a FolderLock).

    root       folder for the catalogue and the vectors, created if it is not there
    tokenizer  of the primary model: it counts a chunk's tokens
    clock      seconds since the epoch
    reranker   orders what a search found, as its last stage; None for a search without one
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
        self._tokenizer, self._clock = tokenizer, clock
        self._config = config or LibraryConfig()
        self._lock = threading.RLock()  # around catalogue and vectors, never around parsing and embedding
        self._catalogue = Catalog(root / "library.sqlite3")
        self._vectors = VectorIndex(root / "vectors")
        self._pending = Pending(self._catalogue, self._vectors, self._lock)
        self._passages = BatchEmbedder(embedder, self._vectors, self._lock, self._config.batch_chunks)
        self._recutter = Rechunker(self._catalogue, self._lock, tokenizer, self._passages, self._pending)
        self._search = Retriever(self._catalogue, self._vectors, self._lock, embedder, reranker)
        for owner in self._catalogue.pending_owners():
            self._pending.try_purge(owner)
        if self._catalogue.pending_owners():
            return  # the disk is full: read what is there
        if self._vectors.fingerprint != embedder.fingerprint or len(self._vectors) != self._catalogue.count_segments():
            self._rebuild(embedder.fingerprint)

    def add(self, path: Path, name: str) -> Iterator[Progress]:
        """Parse, chunk, embed and index one file, a step at a time; a document appears whole or not at all.

        The steps count files, characters, chunks and files. Bytes that are already there give one step with a
        warning. Raises UnreadableDocument, DocumentTooLarge or StoreFull. Closing the iterator early leaves no trace.
        """
        name = clean_name(name)
        data = read_file(path, name, self._config.limits)
        document_id = sha256(data).hexdigest()
        with self._lock:
            known = self._catalogue.document(document_id)
            claimed = known is None and self._pending.claim(document_id)
        if not claimed:
            there = f"It is already in the library as {known.name}." if known else "It is already being added."
            yield Progress("indexed", 1, 1, known, there)
            return
        try:
            yield from self._add(data, document_id, name)
        finally:
            self._pending.release(document_id)

    def reindex(self, document_id: str) -> Iterator[Progress]:
        """Cut a document anew with the chunking of today and embed it anew, a step at a time (see `store.library.rechunk`).

        Searches find the old cut until the new one is complete; closing the iterator early leaves the old one. A
        document that is being cut anew already gives one step with a warning. Raises NoSuchDocument or StoreFull.
        """
        with self._lock:
            self._catalogue.owner(document_id)
            document, claimed = self._catalogue.document(document_id), self._pending.claim(document_id)
        if document is None or not claimed:
            yield Progress("indexed", 1, 1, document, "It is already being cut anew.")
            return
        try:
            self._pending.purge_stale(document_id)
            yield from self._recutter.rechunk(document, self._config.chunking)
        finally:
            self._pending.release(document_id)

    def rename(self, document_id: str, name: str) -> Document:
        """Show a document under another name everywhere, numbered if another document has it.

        Raises NoSuchDocument or StoreFull.
        """
        with self._lock:
            return self._catalogue.rename(document_id, clean_name(name))

    def needs_rechunk(self, document: Document) -> bool:
        """Return whether today's chunking would cut a document otherwise; unknown settings count as the default."""
        return chunk_config_of(document) != self._config.chunking

    def text(self, document_id: str) -> str:
        """Return a document's text up to its last chunk: `text[chunk.start:chunk.end] == chunk.text`.

        Raises NoSuchDocument.
        """
        return self._recutter.reassemble(document_id).text

    def excerpt(self, chunk_id: str) -> Excerpt:
        """Return a chunk where it stands. Raises NoSuchDocument if it is gone, or its document was cut anew."""
        return self._recutter.excerpt(chunk_id)

    def documents(self) -> list[Document]:
        """Return all documents, newest first."""
        with self._lock:
            return self._catalogue.documents()

    def chunks(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks in reading order; empty if it is not there."""
        with self._lock:
            return self._catalogue.chunks(document_id)

    def chunks_by_id(self, ids: Sequence[str]) -> dict[str, Chunk]:
        """Return those of the chunks that are there, by their id."""
        with self._lock:
            return self._catalogue.chunks_by_id(ids)

    def retrieve_stages(self, question: str, top_k: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        """Yield at most `top` hits after each stage of the search, best first (see `store.retrieval.retriever`); the last are final.

        documents  ids of the documents to look in; none for all, and one that is not there finds nothing

        An empty library or a blank question gives one empty stage. Raises ValueError at the first step if top is
        below 1.
        """
        return self._search.retrieve_stages(question, top_k, documents)

    def search(self, question: str, top_k: int, documents: Sequence[str] = ()) -> list[Hit]:
        """Return the last of `stages`: at most `top` hits, best first.

        The same library and question give the same hits in the same order. Raises ValueError if top is below 1.
        """
        *_, final = self.retrieve_stages(question, top_k, documents)
        return final

    def delete(self, document_id: str) -> list[Chunk]:
        """Remove a document from every index; return the chunks it had (empty if it was not there).

        Raises StoreFull, with the document still there and whole.
        """
        with self._lock:
            if self._catalogue.document(document_id) is None:
                return []
            chunks, owner = self._catalogue.chunks(document_id), self._catalogue.owner(document_id)
            self._catalogue.hide(document_id)
            self._pending.try_purge(owner)
            return chunks

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            self._vectors.close()
            self._catalogue.close()

    def _add(self, data: bytes, document_id: str, name: str) -> Iterator[Progress]:
        parsed, chunking = parse(data, name, self._config.limits), self._config.chunking
        warnings = [_sentence(parsed.warning), language_warning(parsed.text)]
        warning = " ".join(filter(None, warnings))
        yield Progress("parsed", 1, 1, warning=warning)
        spans = yield from split_with_progress(parsed.text, self._tokenizer, chunking)
        sizes = (len(data), parsed.num_pages, 0, self._clock())
        draft = Document(document_id, name, *sizes, warning, chunking.tokens, chunking.overlap)
        self._pending.purge_stale(document_id)
        with self._lock:
            draft = self._catalogue.insert_pending(draft, parsed.page_starts)
        shown = False
        try:
            chunks = make_chunks(draft, document_id, parsed, spans)
            passages = yield from self._passages.add(document_id, chunks)
            with self._lock:
                self._catalogue.complete(document_id, chunks, gaps_before(parsed.text, chunks), passages)
                shown = True
                document = self._catalogue.document(document_id)
        finally:
            if not shown:
                self._pending.try_purge(document_id)
        yield Progress("indexed", 1, 1, document, warning)

    def _rebuild(self, fingerprint: str) -> None:
        self._vectors.clear()
        for document in self._catalogue.documents():
            for _ in self._embed_anew(document.id):
                pass  # nobody watches an opening
        self._vectors.mark_complete(fingerprint)

    def _embed_anew(self, document_id: str) -> Iterator[Progress]:
        owner, chunks = self._catalogue.owner(document_id), self._catalogue.chunks(document_id)
        passages = yield from self._passages.add(owner, chunks)
        self._catalogue.set_segment_count(document_id, passages)


def _sentence(warning: str) -> str:
    return f"{warning}." if warning and not warning.endswith(".") else warning
