"""From chunks to vectors, a batch at a time: embedding works without the lock, only what it gave is put in under it."""

import threading
from collections.abc import Generator, Sequence

from store.retrieval.embedder import Embedder
from store.retrieval.vectors import VectorIndex
from store.types import Chunk, Progress


class BatchEmbedder:
    """Embeds chunks into the vectors of one library.

    lock   the library's own, around the vectors
    batch  chunks embedded between two steps
    """

    def __init__(self, embedder: Embedder, vectors: VectorIndex, lock: threading.RLock, batch_size: int) -> None:
        self._embedder, self._vectors, self._lock, self._batch = embedder, vectors, lock, batch_size

    def add(self, owner: str, chunks: Sequence[Chunk]) -> Generator[Progress, None, int]:
        """Embed chunks and file them under `owner`, a batch a step; return how many passages they gave."""
        passages = 0
        for start in range(0, len(chunks), self._batch):
            batch = chunks[start : start + self._batch]
            owned = [(chunk.id, piece) for chunk in batch for piece in self._embedder.segments(chunk.text)]
            vectors = self._embedder.embed([piece for _, piece in owned])
            with self._lock:
                self._vectors.add(owner, [chunk_id for chunk_id, _ in owned], vectors)
            passages += len(owned)
            yield Progress("embedded", start + len(batch), len(chunks))
        return passages
