"""Search in stages, each slower and better than the one before, so that an engine can start on the first.

1. vectors: the chunks whose passages are near the question
2. words: the lexical ranking fused in
3. the reranker, where there is one: it reads the question with each of the best together

No lock is held between two stages, however long the caller takes; a document deleted meanwhile is in no later stage.
Source of the stages: RAGCache, arXiv 2404.12457 (speculation on the hits of an unfinished search).
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from store.catalog.catalog import Catalog
from store.fusion import rrf
from store.retrieval.embedder import Embedder
from store.retrieval.vectors import VectorIndex
from store.types import Hit

CANDIDATES_PER_HIT = 4  # looked at in each search per hit wanted, so that a chunk both know can overtake
RERANKED_PER_HIT = 3  # read by the reranker per hit wanted: each costs a pass through a model


class Reranker(Protocol):
    """Judges passages by reading them; `store.retrieval.reranker` holds the one we ship."""

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text, in the order of `texts`; the higher, the better it fits the question."""
        ...


class Retriever:
    """Searches the indexes of one library, for any number of threads.

    lock      the library's own, around catalogue and vectors; never held while a model works or between two stages
    reranker  orders the best chunks last; None to end with the fused ranking
    """

    def __init__(
        self,
        catalogue: Catalog,
        vectors: VectorIndex,
        lock: threading.RLock,
        embedder: Embedder,
        reranker: Reranker | None = None,
    ) -> None:
        self._catalog, self._vectors, self._lock = catalogue, vectors, lock
        self._embedder, self._reranker = embedder, reranker

    def retrieve_stages(self, question: str, top_k: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        """Yield at most `top` hits after each stage, best first; the last are final.

        documents  ids of the documents to look in; none for all, and one that is not there finds nothing

        The first stage has not looked at words: there no hit says `matched_words`. An empty library or a blank question
        gives one empty stage. Raises ValueError at the first step if top is below 1.
        """
        if top_k < 1:
            raise ValueError(f"top must be at least 1, got {top_k}")
        question = question.encode("utf-8", "replace").decode()  # a lone surrogate is in no index
        if not question.strip() or self._is_empty():
            yield []
            return
        asked = self._embedder.truncate_left(question)
        (vector,) = self._embedder.embed([asked])
        with self._lock:
            near = self._vectors.exact.search(
                vector, top_k * CANDIDATES_PER_HIT, self._catalog.pending_owners(), self._owners(documents)
            )
            hits = self._hits(near, [])
        yield hits[:top_k]
        with self._lock:
            hits = self._hits(near, self._catalog.bm25.search(question, top_k * CANDIDATES_PER_HIT, self._owners(documents)))
        yield hits[:top_k]
        if self._reranker:
            hits = hits[: top_k * RERANKED_PER_HIT]
            scores = self._reranker.score(asked, [hit.chunk.text for hit in hits])
            yield self._reranked(hits, scores)[:top_k]

    def _owners(self, documents: Sequence[str]) -> Sequence[str]:
        """Return the names under which the passages of documents are filed; where none is here, names of nothing."""
        return self._catalog.owners(documents) or documents

    def _is_empty(self) -> bool:
        with self._lock:
            return not self._catalog.documents()

    def _hits(self, near: list[tuple[str, float]], worded: list[str]) -> list[Hit]:
        """Fuse (chunk id, cosine) and the chunk ids of the lexical search into hits of chunks that are still there."""
        fused = [(ids[0], score) for ids, score in rrf([[chunk for chunk, _ in near], worded], key=str)]
        chunks = self._catalog.chunks_by_id([chunk for chunk, _ in fused])
        similarity, words = dict(near), set(worded)
        return [
            Hit(chunks[chunk], score, similarity.get(chunk), chunk in words)
            for chunk, score in fused
            if chunk in chunks
        ]

    def _reranked(self, hits: list[Hit], scores: list[float]) -> list[Hit]:
        """Return the hits that are still there with these scores, best first; equal ones keep their order."""
        with self._lock:
            there = self._catalog.chunks_by_id([hit.chunk.id for hit in hits])
        scored = [replace(hit, score=score) for hit, score in zip(hits, scores, strict=True) if hit.chunk.id in there]
        return sorted(scored, key=lambda hit: -hit.score)
