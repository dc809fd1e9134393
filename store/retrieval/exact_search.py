"""The nearest chunks by cosine, found by looking at every passage: one product of matrices a document.

A graph (HNSW) would look at few of them. But where passages repeat each other, as forms and logs do, it falls into
parts, and what is nearest is then not found (docs/log.md has figures). A person's documents are some ten thousand
passages: all of them take milliseconds.
"""

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np


@dataclass(frozen=True)
class _Block:
    """Chunks with their passages, one after another.

    chunks   ids
    starts   [chunks] of each chunk's first passage
    vectors  [passages, D] of length 1, fp32
    """

    chunks: list[str]
    starts: np.ndarray
    vectors: np.ndarray


class ExactIndex:
    """Passages by document, in memory. The caller takes care of threads."""

    def __init__(self) -> None:
        self._blocks: dict[str, list[_Block]] = {}

    def add(self, document_id: str, chunk_ids: Sequence[str], vectors: np.ndarray) -> None:
        """Add passages: row i of `vectors` [n, D] belongs to chunk_ids[i]. All of one chunk come in one call."""
        order = sorted(range(len(chunk_ids)), key=chunk_ids.__getitem__)
        groups = [(chunk, len(list(rows))) for chunk, rows in groupby(chunk_ids[row] for row in order)]
        if groups:
            starts = np.cumsum([0, *(length for _, length in groups[:-1])])
            piece = _Block([chunk for chunk, _ in groups], starts, np.asarray(vectors[order], np.float32))
            self._blocks.setdefault(document_id, []).append(piece)

    def delete(self, document_id: str) -> None:
        """Forget all passages of a document."""
        self._blocks.pop(document_id, None)

    def search(
        self, vector: np.ndarray, top_k: int, excluded: Collection[str] = (), documents: Collection[str] = ()
    ) -> list[tuple[str, float]]:
        """Return at most `top` (chunk id, cosine) by each chunk's best passage, best first, equal ones by id.

        vector     [D], of length 1
        hidden     ids of documents that must not be found
        documents  ids of the documents to look in; none for all
        """
        found: list[tuple[float, str]] = []
        for document in (self._blocks.keys() & documents if documents else self._blocks.keys()) - set(excluded):
            for piece in self._blocks[document]:
                best = np.maximum.reduceat(piece.vectors @ vector, piece.starts)
                found += zip((-best.clip(-1, 1)).tolist(), piece.chunks, strict=True)
        return [(chunk, -cosine) for cosine, chunk in heapq.nsmallest(top_k, found)]
