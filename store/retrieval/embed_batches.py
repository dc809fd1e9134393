"""Embed chunks in batches; the library's lock is held while adding the vectors, not while embedding."""

import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from store.retrieval.embedder import Embedder
from store.retrieval.vectors import VectorIndex
from store.types import Chunk, Progress


@dataclass(frozen=True)
class BatchEmbedder:
    """Embeds chunks into the vector index of one library.

    lock        the library's lock, which guards the vectors
    batch_size  chunks per step
    """

    embedder: Embedder
    vectors: VectorIndex
    lock: threading.RLock
    batch_size: int

    def add(self, owner: str, chunks: Sequence[Chunk]) -> Generator[Progress, None, int]:
        """Embed chunks and add their vectors under `owner`, a batch per step; return the number of segments."""
        num_segments = 0
        for start in range(0, len(chunks), self.batch_size):
            batch = chunks[start : start + self.batch_size]
            segments = [(chunk.id, segment) for chunk in batch for segment in self.embedder.segments(chunk.text)]
            vectors = self.embedder.embed([segment for _, segment in segments])
            with self.lock:
                self.vectors.add(owner, [chunk_id for chunk_id, _ in segments], vectors)
            num_segments += len(segments)
            yield Progress("embedded", start + len(batch), len(chunks))
        return num_segments
