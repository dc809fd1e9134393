"""Fixtures of the store's tests: a library with a word tokenizer and an embedder without a model."""

import numpy as np
import pytest

from store.document_library import DocumentLibrary
from store.ingest import parse_steps
from store.ingest.chunker import ChunkConfig
from store.retrieval.segments import CONTEXT_WEIGHT
from tests.support.fakes import WordEmbedder, word_tokenizer

SMALL = ChunkConfig(tokens=20, overlap=5)


def search(library, question, top_k, documents=()):
    """Return the hits of the last retrieval stage."""
    *_, final = library.retrieve_stages(question, top_k, documents)
    return final


def best_cosine(embedder, question, chunk):
    """Return the cosine of a chunk's best segment, each with a share of the context, without Chroma."""
    (query,) = embedder.embed([question])
    vectors = embedder.embed(embedder.segments(chunk.text)) + CONTEXT_WEIGHT * embedder.embed([chunk.context])
    return float(np.max(vectors @ query / np.linalg.norm(vectors, axis=1)))


@pytest.fixture(autouse=True)
def parse_in_this_process(monkeypatch):
    """A process for each file takes time; tests/store/ingest/test_isolated.py and the real app's tests have it."""
    monkeypatch.setattr("store.ingest.isolated.parse_isolated", parse_steps)


@pytest.fixture
def open_library(tmp_path, monkeypatch):
    """A function that opens the test's library; each call closes the previous one."""
    opened = []
    monkeypatch.setattr("store.document_library.BATCH_CHUNKS", 2)

    def open_(embedder=None, chunking=SMALL, reranker=None, folder="library", **options):
        while opened:
            opened.pop().close()
        opened.append(
            DocumentLibrary(
                tmp_path / folder, word_tokenizer(), embedder or WordEmbedder(), chunking, reranker, **options
            )
        )
        return opened[-1]

    yield open_
    while opened:
        opened.pop().close()


@pytest.fixture
def file_of(tmp_path):
    """A function that writes a file and returns its path."""

    def write(content, name="file.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
