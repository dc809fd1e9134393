"""Embed chunks: one vector per segment, with a share of the chunk's context (names of document and headings)."""

from collections.abc import Sequence

import numpy as np

from store.types import Chunk, Embedder

CONTEXT_WEIGHT = 0.6  # of a context's vector beside a segment's; chosen on questions about documents
MIN_LENGTH = 1e-12  # of a vector


def embed_chunks(embedder: Embedder, chunks: Sequence[Chunk]) -> tuple[list[str], np.ndarray]:
    """Return the chunk id of each segment, and the vectors of segments: float32 [segments, D], rows of length 1.

    A context tells documents and sections apart. In front of each segment it would outweigh what the segment says; so
    it is embedded apart, and its weighted vector added.
    """
    segments = [(chunk, segment) for chunk in chunks for segment in embedder.segments(chunk.text)]
    contexts = {chunk.context: None for chunk in chunks if chunk.context}
    vectors = embedder.embed([*(segment for _, segment in segments), *contexts])
    shifts = dict(zip(contexts, CONTEXT_WEIGHT * vectors[len(segments) :], strict=True))
    vectors = vectors[: len(segments)]
    for vector, (chunk, _) in zip(vectors, segments, strict=True):
        vector += shifts.get(chunk.context, 0.0)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True).clip(MIN_LENGTH)
    return [chunk.id for chunk, _ in segments], vectors / lengths
