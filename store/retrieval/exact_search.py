"""Exact search of the nearest chunks by cosine: one matrix product per document, over all embedding segments.

An approximate graph (HNSW) reads fewer vectors. But where many segments repeat each other, as in forms and logs, it
falls apart into components, and the nearest segment may be unreachable (docs/log.md has figures). A personal library
has some ten thousand segments; comparing all of them takes milliseconds.
"""

import heapq
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np


class _Block(NamedTuple):
    """Chunks with their segments, one after another."""

    chunks: list[str]  # ids
    starts: np.ndarray  # [chunks], each chunk's first row in `vectors`
    vectors: np.ndarray  # [segments, D], float32, each row of length 1


class ExactIndex:
    """Embedding segments by owner, in memory. Not thread-safe."""

    def __init__(self) -> None:
        self._blocks: dict[str, list[_Block]] = {}

    def add(self, owner: str, chunk_ids: Sequence[str], vectors: np.ndarray) -> None:
        """Add segments: row i of `vectors` [n, D] belongs to chunk_ids[i]. One call adds all segments of a chunk."""
        if not chunk_ids:
            return
        ids = np.array(chunk_ids)
        order = np.argsort(ids, kind="stable")
        chunks, starts = np.unique(ids[order], return_index=True)
        block = _Block(chunks.tolist(), starts, np.asarray(vectors[order], np.float32))
        self._blocks.setdefault(owner, []).append(block)

    def delete(self, owner: str) -> None:
        """Delete all segments of an owner."""
        self._blocks.pop(owner, None)

    def search(
        self, vector: np.ndarray, top_k: int, excluded: Collection[str] = (), owners: Collection[str] = ()
    ) -> list[tuple[str, float]]:
        """Return at most `top_k` (chunk id, cosine of its best segment with `vector` [D]), best first, ties by id.

        Searches `owners`, or all if empty, but no `excluded` ones.
        """
        scored: list[tuple[float, str]] = []
        for owner in (self._blocks.keys() & owners if owners else self._blocks.keys()) - set(excluded):
            for block in self._blocks[owner]:
                best = np.maximum.reduceat(block.vectors @ vector, block.starts)
                scored += zip((-best.clip(-1, 1)).tolist(), block.chunks, strict=True)
        return [(chunk, -negative_cosine) for negative_cosine, chunk in heapq.nsmallest(top_k, scored)]
