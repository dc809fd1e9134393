"""Fixtures of the store's tests: a library with a word tokenizer and an embedder without a model."""

import pytest

from store.ingest.chunker import ChunkConfig
from store.library.library import DocumentLibrary, LibraryConfig
from tests.support.fakes import WordEmbedder, word_tokenizer

SMALL = LibraryConfig(chunking=ChunkConfig(tokens=20, overlap=5), batch_chunks=2)


@pytest.fixture
def open_library(tmp_path):
    """A function that opens the test's library; each call closes the previous one."""
    opened = []

    def open_(embedder=None, config=SMALL, reranker=None):
        while opened:
            opened.pop().close()
        ticks = iter(range(1_000_000))
        library = DocumentLibrary(
            tmp_path / "library",
            word_tokenizer(),
            embedder or WordEmbedder(),
            config,
            lambda: float(next(ticks)),
            reranker,
        )
        opened.append(library)
        return library

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
