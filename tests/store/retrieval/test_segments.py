"""Each segment has a share of its chunk's context, and only of that."""

import numpy as np
import pytest

from store.retrieval.segments import CONTEXT_WEIGHT, embed_chunks
from store.types import Chunk
from tests.support.fakes import WordEmbedder


def chunk(number, text, context):
    return Chunk(f"a-{number}", "a", "a.txt", number, None, 0, len(text), text, context)


def test_segments_of_several_chunks_with_and_without_contexts():
    embedder = WordEmbedder()
    long = "one two three four five six seven eight nine"  # two segments
    chunks = [chunk(0, long, "notes > birds"), chunk(1, "heron", ""), chunk(2, "swan", "notes > rocks")]
    ids, vectors = embed_chunks(embedder, chunks)
    assert ids == ["a-0", "a-0", "a-1", "a-2"]
    contexts = embedder.embed(["notes > birds", "notes > birds", "", "notes > rocks"])
    contexts[2] = 0
    sums = embedder.embed([*embedder.segments(long), "heron", "swan"]) + CONTEXT_WEIGHT * contexts
    np.testing.assert_allclose(vectors, sums / np.linalg.norm(sums, axis=1, keepdims=True), atol=1e-6)
    assert vectors.dtype == np.float32


def test_a_vector_of_length_zero_stays_finite(monkeypatch):
    monkeypatch.setattr(WordEmbedder, "embed", lambda self, texts: np.zeros((len(texts), 4), np.float32))
    _, vectors = embed_chunks(WordEmbedder(), [chunk(0, "heron", "")])
    assert vectors == pytest.approx(0.0)
