"""Cut a document anew: from the text that its chunks hold, with the chunking of today, beside the old cut.

Searches find the old cut until one transaction puts the new one in its place. Until then the new vectors are pending,
from then on the old ones are; so whatever ends this early, a kill too, leaves one of the two cuts, whole, and the
other is removed at once or at the next opening.
"""

import threading
from collections.abc import Iterator
from dataclasses import replace

from tokenizers import Tokenizer

from store.catalog.catalog import Catalog
from store.catalog.fulltext import make_chunks, make_excerpt, gaps_before, estimate_page_starts, join_chunks, excerpt_span
from store.errors import NoSuchDocument
from store.ingest import ParsedDocument
from store.ingest.chunker import ChunkConfig, split_with_progress
from store.ingest.language import language_warning
from store.library.pending import Pending
from store.retrieval.embed_batches import BatchEmbedder
from store.types import Document, Excerpt, Progress


class Rechunker:
    """Reads documents as a whole and cuts them anew.

    lock  the library's own, around the catalogue
    """

    def __init__(
        self,
        catalogue: Catalog,
        lock: threading.RLock,
        tokenizer: Tokenizer,
        passages: BatchEmbedder,
        pending: Pending,
    ) -> None:
        self._catalogue, self._lock, self._tokenizer = catalogue, lock, tokenizer
        self._passages, self._pending = passages, pending

    def reassemble(self, document_id: str) -> ParsedDocument:
        """Return a document as parsing gave it, up to the end of its last chunk. Raises NoSuchDocument."""
        with self._lock:
            self._catalogue.owner(document_id)
            starts, length = self._shape(document_id)
            return ParsedDocument(join_chunks(self._catalogue.chunk_texts(document_id, 0, length)), starts)

    def excerpt(self, chunk_id: str) -> Excerpt:
        """Return a chunk where it stands. Raises NoSuchDocument if there is no such chunk."""
        with self._lock:
            chunk = self._catalogue.chunks_by_id([chunk_id]).get(chunk_id)
            if chunk is None:
                raise NoSuchDocument("This passage is not in the library.")
            starts, length = self._shape(chunk.document_id)
            start, end = excerpt_span(chunk, starts, length)
            text = join_chunks(self._catalogue.chunk_texts(chunk.document_id, start, end), start)[: end - start]
        return make_excerpt(chunk, text, start, starts, length)

    def rechunk(self, document: Document, chunking: ChunkConfig) -> Iterator[Progress]:
        """Replace a document's cut, a step at a time. Raises NoSuchDocument, with nothing changed, if it is deleted."""
        parsed = self.reassemble(document.id)
        spans = yield from split_with_progress(parsed.text, self._tokenizer, chunking)
        with self._lock:
            owner = self._catalogue.insert_pending_rechunk(document.id)
        leftover = owner
        try:
            chunks = make_chunks(document, owner, parsed, spans)
            passages = yield from self._passages.add(owner, chunks)
            warning = document.warning or language_warning(parsed.text)  # an earlier version gave none
            tokens, overlap = chunking.tokens, chunking.overlap
            cut = replace(document, warning=warning, chunk_tokens=tokens, chunk_overlap=overlap)
            between = gaps_before(parsed.text, chunks)
            with self._lock:
                leftover = self._catalogue.replace_chunks(cut, owner, chunks, between, parsed.page_starts, passages)
                renewed = self._catalogue.document(document.id)
        finally:
            self._pending.try_purge(leftover)
        yield Progress("indexed", 1, 1, renewed, renewed.warning if renewed else "")

    def _shape(self, document_id: str) -> tuple[tuple[int, ...], int]:
        """Return where a document's pages begin, and how many characters its chunks reach."""
        places = self._catalogue.chunk_spans(document_id)
        length = places[-1][1] if places else 0
        starts = self._catalogue.page_starts(document_id)
        if starts is None:
            document = self._catalogue.document(document_id)
            pages = document.num_pages if document else None
            starts = estimate_page_starts(pages, [(start, page) for start, _, page in places], length)
        return starts, length
