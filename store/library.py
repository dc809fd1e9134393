"""The library: documents as a whole, over the catalogue (text, words) and the vectors.

A document appears whole or not at all. It is entered as pending before its first vector, and shown by the one
transaction that also enters its chunks and words; whatever ends an `add` early removes the rest, and what a killed
process could not remove, the next opening does. Vectors that do not fit the embedder are made anew from the text.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from tokenizers import Tokenizer

from store.catalogue import Catalogue
from store.chunk import ChunkConfig, iter_split
from store.embed import Embedder
from store.errors import StoreFull, UnreadableDocument
from store.names import clean_name
from store.parse import ParsedDocument, ParseLimits, parse
from store.search import Reranker, StagedSearch
from store.types import Chunk, Document, Hit, Progress
from store.vectors import VectorIndex


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
        self._tokenizer, self._embedder, self._clock = tokenizer, embedder, clock
        self._config = config or LibraryConfig()
        self._lock = threading.RLock()  # around catalogue and vectors, never around parsing and embedding
        self._adding: set[str] = set()
        self._catalogue = Catalogue(root / "library.sqlite3")
        self._vectors = VectorIndex(root / "vectors")
        self._search = StagedSearch(self._catalogue, self._vectors, self._lock, embedder, reranker)
        for document_id in self._catalogue.pending():
            self._abandon(document_id)
        if self._catalogue.pending():
            return  # the disk is full: read what is there
        if self._vectors.fingerprint != embedder.fingerprint or len(self._vectors) != self._catalogue.passages():
            self._rebuild()

    def add(self, path: Path, name: str) -> Iterator[Progress]:
        """Parse, chunk, embed and index one file, a step at a time; a document appears whole or not at all.

        The steps count files, characters, chunks and files. Bytes that are already there give one step with a
        warning. Raises UnreadableDocument, DocumentTooLarge or StoreFull. Closing the iterator early leaves no trace.
        """
        name = clean_name(name)
        data = _bytes_of(path, name, self._config.limits)
        document_id = sha256(data).hexdigest()
        with self._lock:
            known = self._catalogue.document(document_id)
            if known or document_id in self._adding:
                warning = "already in the library" if known else "already being added"
            else:
                warning = ""
                self._adding.add(document_id)
        if warning:
            yield Progress("indexed", 1, 1, known, warning)
            return
        try:
            yield from self._add(data, document_id, name)
        finally:
            with self._lock:
                self._adding.discard(document_id)

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

    def stages(self, question: str, top: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        """Yield at most `top` hits after each stage of the search, best first (see `store.search`); the last are final.

        documents  ids of the documents to look in; none for all, and one that is not there finds nothing

        An empty library or a blank question gives one empty stage. Raises ValueError at the first step if top is
        below 1.
        """
        return self._search.stages(question, top, documents)

    def search(self, question: str, top: int, documents: Sequence[str] = ()) -> list[Hit]:
        """Return the last of `stages`: at most `top` hits, best first.

        The same library and question give the same hits in the same order. Raises ValueError if top is below 1.
        """
        *_, final = self.stages(question, top, documents)
        return final

    def delete(self, document_id: str) -> list[Chunk]:
        """Remove a document from every index; return the chunks it had (empty if it was not there).

        Raises StoreFull, with the document still there and whole.
        """
        with self._lock:
            if self._catalogue.document(document_id) is None:
                return []
            chunks = self._catalogue.chunks(document_id)
            self._catalogue.withdraw(document_id)
            self._abandon(document_id)
            return chunks

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            self._vectors.close()
            self._catalogue.close()

    def _add(self, data: bytes, document_id: str, name: str) -> Iterator[Progress]:
        parsed = parse(data, name, self._config.limits)
        yield Progress("parsed", 1, 1, warning=parsed.warning)
        spans: list[tuple[int, int]] = []
        for more in iter_split(parsed.text, self._tokenizer, self._config.chunking):
            spans += more
            yield Progress("chunked", spans[-1][1] if spans else 0, len(parsed.text))
        with self._lock:
            for stale in set(self._catalogue.pending()) - (self._adding - {document_id}):
                self._purge(stale)  # an earlier end had no room even for this
            draft = Document(document_id, name, len(data), parsed.pages, 0, self._clock())
            draft = self._catalogue.begin(draft)
        shown = False
        try:
            chunks = _chunks_of(draft, parsed, spans)
            passages = 0
            for done, count in self._embed(document_id, chunks):
                passages += count
                yield Progress("embedded", done, len(chunks))
            with self._lock:
                self._catalogue.complete(document_id, chunks, passages)
                shown = True
                document = self._catalogue.document(document_id)
        finally:
            if not shown:
                self._abandon(document_id)
        yield Progress("indexed", 1, 1, document)

    def _embed(self, document_id: str, chunks: list[Chunk]) -> Iterator[tuple[int, int]]:
        """Embed chunks into the vectors; yield (chunks done, passages of the latest batch)."""
        for start in range(0, len(chunks), self._config.batch_chunks):
            batch = chunks[start : start + self._config.batch_chunks]
            owned = [(chunk.id, piece) for chunk in batch for piece in self._embedder.passages(chunk.text)]
            vectors = self._embedder.embed([piece for _, piece in owned])
            with self._lock:
                self._vectors.add(document_id, [chunk_id for chunk_id, _ in owned], vectors)
            yield start + len(batch), len(owned)

    def _rebuild(self) -> None:
        self._vectors.clear()
        for document in self._catalogue.documents():
            steps = self._embed(document.id, self._catalogue.chunks(document.id))
            self._catalogue.count_passages(document.id, sum(count for _, count in steps))
        self._vectors.seal(self._embedder.fingerprint)

    def _purge(self, document_id: str) -> None:
        self._vectors.delete(document_id)
        self._catalogue.remove(document_id)

    def _abandon(self, document_id: str) -> None:
        """Remove what there is of a pending document; where even that has no room, it stays hidden until later."""
        try:
            with self._lock:
                self._purge(document_id)
        except StoreFull:
            pass


def _bytes_of(path: Path, name: str, limits: ParseLimits) -> bytes:
    try:
        with path.open("rb") as file:
            limits.check_file(os.fstat(file.fileno()).st_size, name)
            data = file.read(limits.file_bytes + 1)  # it may have grown since
    except OSError as error:
        raise UnreadableDocument(f"{name} cannot be opened ({error.strerror}).") from error
    limits.check_file(len(data), name)
    return data


def _chunks_of(document: Document, parsed: ParsedDocument, spans: list[tuple[int, int]]) -> list[Chunk]:
    return [
        Chunk(
            id=f"{document.id}-{number}",
            document_id=document.id,
            document_name=document.name,
            number=number,
            page=parsed.page_of(start),
            start=start,
            end=end,
            text=parsed.text[start:end],
        )
        for number, (start, end) in enumerate(spans)
    ]
