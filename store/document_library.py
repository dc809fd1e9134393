"""The library: whole documents over the catalog (text, terms) and the vector index.

A document appears as a whole or not at all: it is pending before its first vector, and listed by the transaction that
inserts its chunks. Re-chunking builds a new version from the stored text; one transaction replaces the old version by
it. Whatever is pending is deleted if an operation ends early, or after a crash by the next opening.
"""

import heapq
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from tokenizers import Tokenizer

from store.catalog.catalog import Catalog
from store.catalog.document_text import make_chunks, take_excerpt
from store.catalog.transfer import original_in
from store.errors import NoSuchDocument, StoreFull
from store.fusion import GERMAN_WORD_WEIGHT, WORD_WEIGHT, hybrid_scores
from store.german import is_german
from store.ingest import isolated, read_file
from store.ingest.chunker import ChunkConfig, split_sections
from store.ingest.document import ParsedDocument
from store.ingest.language import language_of, language_warning
from store.ingest.markdown_file import convert_markdown
from store.ingest.page_picture import page_picture
from store.ingest.sniff import detect_format
from store.library import Library, LibraryInfo
from store.limits import DEFAULT_LIMITS, Limits
from store.names import clean_label, clean_name
from store.originals import Originals
from store.retrieval.segments import embed_chunks
from store.retrieval.vectors import VectorIndex
from store.types import PARSER_VERSION, Chunk, Document, Embedder, Excerpt, Hit, Progress, Reranker

BATCH_CHUNKS = 2  # embedded between two progress steps, at which the caller can cancel or let a question pass
MIN_WORD_MATCHES = 100  # of the lexical search that are fused
RERANKED_PER_HIT = 3  # each costs a forward pass


class DocumentLibrary(Library):
    """The documents of one folder, for any number of threads and one process (hold a FolderLock)."""

    def __init__(
        self,
        root: Path,  # for the catalog and the vectors; created if missing
        tokenizer: Tokenizer,  # of the main model: it counts a chunk's tokens
        embedder: Embedder,
        chunking: ChunkConfig | None = None,  # of new documents; existing ones keep their chunks until re-indexed
        reranker: Reranker | None = None,  # ranks the hits in a last retrieval stage
        limits: Limits = DEFAULT_LIMITS,  # on new documents
        chroma: str = "",  # server for the vectors; by default they are in `root`
    ) -> None:
        self._tokenizer = tokenizer
        self.embedder = embedder
        self._reranker = reranker
        self._chunking = chunking or ChunkConfig()
        self._limits = limits
        self._lock = threading.RLock()  # guards the fields below; not held while a model runs or a caller pauses
        self._claimed = set[str]()  # documents that are being added or re-indexed
        with ExitStack() as opened:
            self._catalog = opened.enter_context(closing(Catalog(root)))
            self._vectors = opened.enter_context(closing(VectorIndex(root / "vectors", chroma)))
            self._originals = Originals(root / "originals")
            self.notice = self._catalog.notice  # of damage that was found, in sentences for the user
            with suppress(StoreFull):  # if the disk is full: serve the existing documents
                self._purge_pending()
                self._check_vectors()
            self._originals.keep_only({document.id for document in self._catalog.documents()})
            self._opened = opened.pop_all()

    def add(self, path: Path, name: str) -> Iterator[Progress]:
        name = clean_name(name)
        data = read_file(path, name, self._limits)
        document_id = sha256(data).hexdigest()
        with self._lock:
            documents = {each.id: each for each in self._catalog.documents()}
            existing = documents.get(document_id)
            if existing is None:
                self._limits.check_documents(len({document_id, *documents, *self._claimed}))
            is_claimed = existing is None and self._claim(document_id)
        if not is_claimed:
            yield _unchanged(existing) if existing else Progress("indexed", 1, 1, None, "It is already being added.")
            return
        try:
            parsed = yield from isolated.parse_isolated(data, name, self._limits)
            warning = " ".join(filter(None, [parsed.warning, self._language_warning(parsed.text)]))
            num_pages = len(parsed.page_starts) or None
            yield Progress("parsed", num_pages or 1, num_pages or 1, warning=warning)
            document = Document(document_id, name, len(data), num_pages, 0, time.time(), warning)
            document = replace(document, parser_version=PARSER_VERSION, language=language_of(parsed.text))
            with self._lock:
                existing = next((each for each in self._catalog.documents() if each.id == document_id), None)
                if existing is None:
                    self._purge_pending(document_id)
                    document = self._catalog.insert_pending(document)
            if existing is not None:  # a copy of it was restored meanwhile
                yield _unchanged(existing)
                return
            document = yield from self._index(document, document_id, parsed)
            if detect_format(data, name) == "pdf":
                self._keep_original(document_id, data)
        finally:
            self._release(document_id)
        yield Progress("indexed", 1, 1, document, document.warning)
        self._catalog.copy_if_due()

    def reindex(self, document_id: str) -> Iterator[Progress]:
        """As `Library.reindex`; in a document without pages from an earlier version, table rows get their headers."""
        with self._lock:
            document = self._catalog.document(document_id)
            is_claimed = self._claim(document_id)
        if not is_claimed:
            yield Progress("indexed", 1, 1, document, "It is already being re-indexed.", unchanged=True)
            return
        try:
            with self._lock:
                self._purge_pending(document_id)
                parsed = self._catalog.parsed(document_id)
                if document.parser_version is None and not parsed.page_starts:
                    parsed = replace(parsed, text=convert_markdown(parsed.text))
                    document = replace(document, parser_version=PARSER_VERSION)
                warning = document.warning or self._language_warning(parsed.text)  # earlier versions stored none
                owner = self._catalog.insert_pending_rechunk(document_id)
            document = replace(document, warning=warning, language=language_of(parsed.text))
            document = yield from self._index(document, owner, parsed)
        finally:
            self._release(document_id)
        yield Progress("indexed", 1, 1, document, document.warning)
        self._catalog.copy_if_due()

    def documents_without_vectors(self) -> list[Document]:
        with self._lock:
            existing = self._vectors.segment_counts()
            expected = self._catalog.segment_counts()
            incomplete = {each for each, (owner, count) in expected.items() if existing.get(owner, 0) != count}
            return [document for document in self._catalog.documents() if document.id in incomplete]

    def embed_missing(self) -> Generator[Progress, None, None]:
        for document in self.documents_without_vectors():
            with self._lock:
                is_claimed = self._claim(document.id)
            if not is_claimed:
                continue  # it is being re-indexed, or deleted
            try:
                with self._lock:
                    owner, num_segments = self._catalog.segment_counts(document.id).get(document.id, ("", 0))
                    if self._vectors.num_segments(owner) == num_segments:
                        continue  # re-indexed or deleted in the meantime
                    chunks = self._catalog.chunks(document.id)
                    self._vectors.delete(owner)
                num_segments = yield from self._embed(owner, chunks)
                with self._lock, suppress(NoSuchDocument):  # deleted in the meantime
                    self._catalog.document(document.id)
                    self._catalog.set_segment_count(document.id, num_segments)
            finally:
                with self._lock:
                    with suppress(StoreFull):
                        self._purge_pending(document.id)
                    self._release(document.id)

    def rename(self, document_id: str, name: str) -> Document:
        with self._lock:
            return self._catalog.rename(document_id, clean_name(name))

    def add_to_collection(self, document_ids: Sequence[str], name: str) -> None:
        if not (name := clean_label(name)):
            return
        with self._lock:
            documents = self._catalog.documents()
            existing = {each.casefold(): each for document in documents for each in document.collections}
            name = existing.get(name.casefold(), name)
            chosen = [document for document in documents if document.id in document_ids]
            self._catalog.set_collections({each.id: {*each.collections, name} for each in chosen})

    def remove_from_collection(self, document_ids: Sequence[str], name: str) -> None:
        with self._lock:
            chosen = [document for document in self._catalog.documents() if document.id in document_ids]
            self._catalog.set_collections({each.id: {*each.collections} - {name} for each in chosen})

    def info(self) -> LibraryInfo:
        embedder = self.embedder
        return LibraryInfo(self._chunking, embedder.name, embedder.num_parameters, embedder.max_tokens, self.notice)

    def excerpt(self, chunk_id: str) -> Excerpt:
        with self._lock:
            chunk = self._catalog.chunks_by_id([chunk_id]).get(chunk_id)
            if chunk is None:
                raise NoSuchDocument("This passage is not in the library.")
            return take_excerpt(chunk, self._catalog.parsed(chunk.document_id))

    def has_pages(self, document_id: str) -> bool:
        return self._originals.has(document_id)

    def copy(self, document_id: str) -> bytes:
        with self._lock:
            return self._catalog.export_document(document_id, self._originals.get(document_id))

    def restore(self, source: Path) -> None:
        with self._lock:
            self._catalog.import_from(source, self._limits)
            if original := original_in(source):
                self._originals.put(sha256(original).hexdigest(), original)

    def page_picture(self, chunk_id: str, page: int, quote: str) -> bytes | None:
        document_id = self.excerpt(chunk_id).chunk.document_id
        data = self._originals.get(document_id) if page >= 1 else None
        return None if data is None else page_picture(data, page - 1, quote)

    def documents(self) -> list[Document]:
        with self._lock:
            return self._catalog.documents()

    def chunks(self, document_id: str, limit: int = -1) -> list[Chunk]:
        with self._lock:
            return self._catalog.chunks(document_id, limit)

    def chunks_by_id(self, ids: Sequence[str]) -> dict[str, Chunk]:
        with self._lock:
            return self._catalog.chunks_by_id(ids)

    def retrieve_stages(self, question: str, top_k: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        """Yield the hits of vector search, of its fusion with lexical search, and of the reranker, if any.

        Each stage is slower and better than the last, so that an engine can start on the first (speculative prefill on
        the hits of an unfinished search: RAGCache, arXiv 2404.12457). A document deleted in the meantime is in no later
        stage. Without documents, or for a blank question, the only stage is empty.
        """
        if top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {top_k}")
        question = question.encode("utf-8", "replace").decode()  # lone surrogates cannot be searched
        with self._lock:
            is_empty = not self._catalog.owners(documents)
        if is_empty or not question.strip():
            yield []
            return
        model_question = self.embedder.truncate_left(question)
        vector = self.embedder.embed_question(model_question)
        with self._lock:
            num_changes, cosines = self.num_changes, self._vectors.cosines(vector, self._catalog.owners(documents))
            hits = self._hits(cosines, {}, top_k)
        yield hits
        num_candidates = top_k * RERANKED_PER_HIT
        with self._lock:
            owners = self._catalog.owners(documents) if documents else None
            words = self._catalog.bm25.search(question, max(MIN_WORD_MATCHES, num_candidates), owners)
            weight = GERMAN_WORD_WEIGHT if self.embedder.is_english and is_german(question) else WORD_WEIGHT
            if self.num_changes != num_changes:
                cosines = self._vectors.cosines(vector, self._catalog.owners(documents))
            hits = self._hits(cosines, words, num_candidates, weight)
        yield hits[:top_k]
        if self._reranker:
            scores = self._reranker.score(model_question, [hit.chunk.passage for hit in hits])
            with self._lock:
                existing = self._catalog.chunks_by_id([hit.chunk.id for hit in hits])
            scored = [replace(hit, score=score) for hit, score in zip(hits, scores, strict=True)]
            yield sorted((hit for hit in scored if hit.chunk.id in existing), key=lambda hit: -hit.score)[:top_k]

    def _keep_original(self, document_id: str, data: bytes) -> None:
        """Keep the file of a document, unless it was deleted since it was added."""
        self._originals.put(document_id, data)
        with self._lock:
            try:
                self._catalog.document(document_id)
            except NoSuchDocument:
                self._originals.delete(document_id)

    def delete(self, document_id: str) -> list[Chunk]:
        with self._lock:
            chunks = self._catalog.chunks(document_id)
            self._catalog.hide(document_id)
            self._originals.delete(document_id)
            with suppress(StoreFull):
                self._purge_pending()
            return chunks

    @property
    def num_changes(self) -> int:
        """A number that grows with every change of a document."""
        return self._catalog.num_changes

    def purge(self) -> None:
        """Delete what earlier changes left to be deleted. Raises StoreFull."""
        with self._lock:
            self._purge_pending()

    def close(self) -> None:
        with self._lock:
            self._opened.close()

    def _language_warning(self, text: str) -> str:
        return language_warning(text) if self.embedder.is_english else ""

    def _index(self, document: Document, owner: str, parsed: ParsedDocument) -> Generator[Progress, None, Document]:
        """Chunk, embed and complete this owner's pending version, then delete the previous one.

        If this ends early, the pending version is deleted instead.
        """
        document = replace(document, chunk_tokens=self._chunking.tokens, chunk_overlap=self._chunking.overlap)
        try:
            spans: list[tuple[int, int]] = []
            for section_spans in split_sections(parsed.text, self._tokenizer, self._chunking):
                spans += section_spans
                yield Progress("chunked", spans[-1][1] if spans else 0, len(parsed.text))
            chunks = make_chunks(document, owner, parsed, spans)
            num_segments = yield from self._embed(owner, chunks)
            with self._lock:
                return self._catalog.complete(document, owner, chunks, parsed, num_segments)
        finally:
            with suppress(StoreFull):
                self._purge_pending(document.id)

    def _embed(self, owner: str, chunks: Sequence[Chunk]) -> Generator[Progress, None, int]:
        """Embed chunks and add their vectors under `owner`, a batch per step; return the number of segments."""
        num_segments = 0
        for start in range(0, len(chunks), BATCH_CHUNKS):
            batch = chunks[start : start + BATCH_CHUNKS]
            ids, vectors = embed_chunks(self.embedder, batch)
            with self._lock:
                self._vectors.add(owner, ids, vectors)
            num_segments += len(ids)
            yield Progress("embedded", start + len(batch), len(chunks))
        return num_segments

    def _check_vectors(self) -> None:
        """Delete vectors of another embedder, and those of documents that the catalog has lost."""
        if self._vectors.fingerprint != self.embedder.fingerprint:
            if self._vectors.fingerprint:
                self._vectors.clear()  # also an empty one: Chroma keeps the length of the vectors
            self._vectors.set_fingerprint(self.embedder.fingerprint)
        expected = self._catalog.segment_counts()
        unknown = self._vectors.segment_counts().keys() - {owner for owner, _ in expected.values()}
        lost = {owner.partition(".")[0] for owner in unknown} - expected.keys()
        if not self._vectors.was_used_last:  # they may have been deleted meanwhile
            lost.clear()
        if lost and self.notice:
            self.notice += f" In all, up to {len(lost)} {'document is' if len(lost) == 1 else 'documents are'} lost."
        elif lost:
            self.notice = self._catalog.restore(lost)
        for owner in unknown:  # of the lost and of the restored ones, whose chunks may be others
            self._vectors.delete(owner)
        self._vectors.mark_used()

    def _hits(
        self, cosines: Mapping[str, float], words: Mapping[str, float], top_k: int, word_weight: float = WORD_WEIGHT
    ) -> list[Hit]:
        """Return the best chunks by their cosines and by their scores in the lexical search."""
        scores = hybrid_scores(cosines, words, word_weight)
        best = heapq.nsmallest(top_k, scores, key=lambda chunk: (-scores[chunk], chunk))
        chunks = self._catalog.chunks_by_id(best)
        return [Hit(chunks[each], scores[each], cosines.get(each), each in words) for each in best if each in chunks]

    def _claim(self, document_id: str) -> bool:
        """Claim a document for one worker; return False if it is claimed already. The caller holds the lock."""
        is_free = document_id not in self._claimed
        self._claimed.add(document_id)
        return is_free

    def _release(self, document_id: str) -> None:
        with self._lock:
            self._claimed.discard(document_id)

    def _purge_pending(self, document_id: str = "") -> None:
        """Delete all that is pending, except of documents that others than `document_id`'s worker have claimed.

        Raises StoreFull; what is left then stays hidden, and the next call deletes it.
        """
        with self._lock:
            for owner in self._catalog.pending_owners():
                if owner.partition(".")[0] not in self._claimed - {document_id}:
                    self._vectors.delete(owner)
                    self._catalog.delete_pending(owner)


def _unchanged(document: Document) -> Progress:
    """Return the only step of adding a document that is in the library."""
    return Progress("indexed", 1, 1, document, f"It is already in the library as {document.name}.", unchanged=True)
