"""Retrieval in stages, each slower and better than the last, so that an engine can start on the first.

Source of the stages: RAGCache, arXiv 2404.12457 (speculative prefill on the hits of an unfinished search).
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from store.catalog.catalog import Catalog
from store.fusion import rrf
from store.retrieval.vectors import VectorIndex
from store.types import Hit

CANDIDATES_PER_HIT = 4  # of each search, so that a chunk found by both can overtake
RERANKED_PER_HIT = 3  # each costs a forward pass


class Embedder(Protocol):
    """Maps texts to vectors of length 1, so that a dot product is a cosine similarity; see `store.retrieval.minilm`.

    A model silently truncates long texts. A chunk is therefore embedded as `segments` that fit the model, and its
    similarity is that of its best segment.
    """

    @property
    def fingerprint(self) -> str:
        """Identifies the model; vectors of different ones must not share an index. Any precision ranks alike."""

    def segments(self, text: str) -> list[str]:
        """Split a text into segments that fit the model, in order; at least one."""

    def truncate_left(self, text: str) -> str:
        """Return the longest end of a text that fits the model: a question usually follows a pasted text."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return float32 [n, D], each row of length 1."""


class Reranker(Protocol):
    """Scores chunks by reading them with the question; see `store.retrieval.reranker`."""

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return the relevance of each text to the question; higher is better."""


@dataclass(frozen=True)
class Retriever:
    """Searches the indexes of one library, for any number of threads."""

    catalog: Catalog
    vectors: VectorIndex
    lock: threading.RLock  # guards catalog and vectors; not held while a model runs or between stages
    embedder: Embedder
    reranker: Reranker | None  # None for no third stage

    def retrieve_stages(self, question: str, top_k: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        """Yield the hits of vector search, of its fusion with lexical search (RRF), and of the reranker, if any.

        A document deleted in the meantime is in no later stage. Without documents, or for a blank question, the only
        stage is empty. The contract is that of `store.types.Finder`.
        """
        if top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {top_k}")
        question = question.encode("utf-8", "replace").decode()  # lone surrogates cannot be searched
        with self.lock:
            is_empty = not self.catalog.owners(documents)
        if is_empty or not question.strip():
            yield []
            return
        model_question = self.embedder.truncate_left(question)
        (vector,) = self.embedder.embed([model_question])
        num_candidates = top_k * CANDIDATES_PER_HIT
        with self.lock:
            nearest = self.vectors.search(vector, num_candidates, self.catalog.owners(documents))
            hits = self._fuse(nearest, [])
        yield hits[:top_k]
        with self.lock:
            owners = self.catalog.owners(documents) if documents else None
            hits = self._fuse(nearest, self.catalog.bm25.search(question, num_candidates, owners))
        yield hits[:top_k]
        if self.reranker:
            hits = hits[: top_k * RERANKED_PER_HIT]
            scores = self.reranker.score(model_question, [hit.chunk.text for hit in hits])
            with self.lock:
                existing = self.catalog.chunks_by_id([hit.chunk.id for hit in hits])
            scored = [replace(hit, score=score) for hit, score in zip(hits, scores, strict=True)]
            yield sorted((hit for hit in scored if hit.chunk.id in existing), key=lambda hit: -hit.score)[:top_k]

    def _fuse(self, nearest: list[tuple[str, float]], lexical: list[str]) -> list[Hit]:
        """Fuse (chunk id, cosine) and the lexical search's chunk ids into hits of existing chunks."""
        fused = [(ids[0], score) for ids, score in rrf([[chunk for chunk, _ in nearest], lexical], key=str)]
        chunks = self.catalog.chunks_by_id([chunk for chunk, _ in fused])
        similarity = dict(nearest)
        matched = set(lexical)
        return [
            Hit(chunks[chunk], score, similarity.get(chunk), chunk in matched)
            for chunk, score in fused
            if chunk in chunks
        ]
