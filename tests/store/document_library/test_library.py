"""A document is in the library as a whole or not at all; a deleted one is gone from every index."""

import errno
import math
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from chromadb import Collection
from chromadb.errors import InternalError

from store.document_library import BATCH_CHUNKS, DocumentLibrary
from store.errors import DocumentTooLarge, StoreFull, UnreadableDocument
from store.ingest.chunker import ChunkConfig
from store.retrieval.vectors import VectorIndex
from tests.store.conftest import SMALL, best_cosine, search
from tests.support.fakes import WordEmbedder, word_tokenizer
from tests.support.files import pdf

BIRDS = (
    "The heron waits in the reeds. " * 8
    + "\n\nThe kingfisher dives for small fish near code 566362.\n\n"
    + "Swans. " * 30
)
ROCKS = "Granite cools slowly under ground. " * 8 + "\n\nBasalt cools quickly in the open sea.\n\n" + "Chalk. " * 30


def add(library, path, name=None):
    return list(library.add(path, name or path.name))


def count_rows(tmp_path, folder="library"):
    """Count the rows of every index, bypassing the library's own filters."""
    counts = {}
    for file, table in [
        ("vectors/chroma", "embeddings"),
        *(("library", name) for name in ("documents", "chunks", "words")),
    ]:
        with closing(sqlite3.connect(tmp_path / folder / f"{file}.sqlite3")) as database:
            (counts[table],) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
    return counts


def assert_consistent(library, tmp_path):
    """Check that every index contains the documents' chunks and nothing else."""
    chunks = [chunk for document in library.documents() for chunk in library.chunks(document.id)]
    num_segments = sum(len(WordEmbedder().segments(chunk.text)) for chunk in chunks)
    assert count_rows(tmp_path) == {
        "embeddings": num_segments,
        "documents": len(library.documents()),
        "chunks": len(chunks),
        "words": len(chunks),
    }


NOTHING = {"embeddings": 0, "documents": 0, "chunks": 0, "words": 0}


def test_steps_come_in_order_and_end_with_the_document(open_library, file_of):
    steps = add(open_library(), file_of(BIRDS), "folder/birds.txt")
    stages = [step.stage for step in steps]
    assert sorted(set(stages), key=stages.index) == ["parsed", "chunked", "embedded", "indexed"]
    assert all(0 <= step.done <= step.total for step in steps)
    assert all(step.document is None for step in steps[:-1])
    embedded = [step for step in steps if step.stage == "embedded"]
    assert len(embedded) > 1 and embedded[-1].done == embedded[-1].total == steps[-1].document.num_chunks
    assert steps[-1].document.name == "birds.txt"


def test_chunks_are_slices_of_the_text_in_reading_order(open_library, file_of):
    library = open_library()
    document = add(library, file_of(BIRDS))[-1].document
    chunks = library.chunks(document.id)
    assert [chunk.index for chunk in chunks] == list(range(document.num_chunks))
    assert all(chunk.text == BIRDS[chunk.start : chunk.end] for chunk in chunks)
    assert all(chunk.id == f"{document.id}-{chunk.index}" and chunk.page is None for chunk in chunks)


def test_chunks_of_a_pdf_know_their_page(open_library, file_of):
    library = open_library(chunking=ChunkConfig(tokens=3, overlap=0))
    document = add(library, file_of(pdf("alpha beta gamma", "", "delta epsilon zeta"), "a.pdf"))[-1].document
    assert document.num_pages == 3
    assert [chunk.page for chunk in library.chunks(document.id)] == [1, 3]


def test_a_library_is_the_same_after_reopening(open_library, file_of, tmp_path):
    library = open_library()
    add(library, file_of(BIRDS, "birds.txt"))
    add(library, file_of(ROCKS, "rocks.txt"))
    before = library.documents(), search(library, "quickly cooling basalt", 3), count_rows(tmp_path)
    library = open_library(embedder := WordEmbedder())
    assert embedder.num_embedded == 0
    assert (library.documents(), search(library, "quickly cooling basalt", 3), count_rows(tmp_path)) == before
    assert [document.name for document in library.documents()] == ["rocks.txt", "birds.txt"]


def test_same_bytes_twice_are_one_document_with_a_warning(open_library, file_of, tmp_path):
    library = open_library()
    first = add(library, file_of(BIRDS))[-1].document
    before = count_rows(tmp_path)
    (step,) = add(library, file_of(BIRDS), "other.txt")
    assert (step.document, step.unchanged) == (first, True)
    assert step.warning == "It is already in the library as file.txt."
    assert count_rows(tmp_path) == before


def test_same_bytes_at_the_same_time_are_one_document(open_library, file_of):
    library = open_library()
    first = library.add(file_of(BIRDS), "a.txt")
    next(first)
    assert [step.warning for step in library.add(file_of(BIRDS), "b.txt")] == ["It is already being added."]
    list(first)
    assert len(library.documents()) == 1


def test_two_files_of_one_name_are_two_documents(open_library, file_of):
    library = open_library()
    names = [add(library, file_of(text), "notes.txt")[-1].document.name for text in (BIRDS, ROCKS)]
    assert names == ["notes.txt", "notes (2).txt"]


@pytest.mark.parametrize("steps", range(6))
def test_an_addition_closed_early_leaves_no_trace(open_library, file_of, steps, tmp_path):
    library = open_library()
    adding = library.add(file_of(BIRDS), "birds.txt")
    for _ in range(steps):
        assert next(adding).stage != "indexed"
    adding.close()
    assert count_rows(tmp_path) == NOTHING
    assert add(library, file_of(BIRDS))[-1].document


def test_an_unfinished_document_is_invisible(open_library, file_of):
    library = open_library()
    add(library, file_of(ROCKS, "rocks.txt"))
    before = library.documents(), search(library, "the heron waits", 5)
    adding = library.add(file_of(BIRDS, "birds.txt"), "birds.txt")
    while next(adding).stage != "embedded":
        pass
    assert (library.documents(), search(library, "the heron waits", 5)) == before
    adding.close()


def test_opening_deletes_what_a_killed_process_left(open_library, file_of, tmp_path):
    library = open_library()
    add(library, file_of(ROCKS, "rocks.txt"))
    before = count_rows(tmp_path)
    adding = library.add(file_of(BIRDS), "birds.txt")
    while next(adding).stage != "embedded":
        pass
    assert count_rows(tmp_path)["embeddings"] > before["embeddings"]
    shutil.copytree(tmp_path / "library", tmp_path / "killed")
    DocumentLibrary(tmp_path / "killed", word_tokenizer(), WordEmbedder(), SMALL).close()
    assert count_rows(tmp_path, "killed") == before
    adding.close()


def test_a_hit_can_match_by_words_and_by_vector(open_library, file_of):
    library = open_library()
    add(library, file_of(BIRDS, "birds.txt"))
    add(library, file_of(ROCKS, "rocks.txt"))
    hit = search(library, "What dives near 566362?", 2)[0]
    assert "kingfisher" in hit.chunk.text and hit.matched_words and 0 < hit.similarity <= 1


def test_a_chunk_is_as_similar_as_its_best_segment(open_library, file_of):
    library = open_library()
    document = add(library, file_of(BIRDS))[-1].document
    question = "kingfisher dives for fish"
    hits = search(library, question, document.num_chunks)
    assert len(hits) == document.num_chunks > 1 and all(hit.chunk.context for hit in hits)
    for hit in hits:
        assert hit.similarity == pytest.approx(best_cosine(WordEmbedder(), question, hit.chunk), abs=1e-5)


def test_hits_are_ordered_deterministic_and_at_most_top_k(open_library, file_of):
    library = open_library()
    add(library, file_of(BIRDS))
    first, second = (search(library, "the heron waits", 3) for _ in range(2))
    assert first == second and len(first) == 3
    assert [hit.score for hit in first] == sorted((hit.score for hit in first), reverse=True)
    assert len({hit.chunk.id for hit in first}) == 3


@pytest.mark.parametrize("question", ["", "  \n", "?", '"', "\ud800", "\0", "汉" * 5000])
def test_any_question_is_answered(open_library, file_of, question):
    library = open_library()
    assert search(library, question, 3) == []
    add(library, file_of(BIRDS))
    assert len(search(library, question, 3)) <= 3


def test_top_k_below_one_is_rejected(open_library):
    with pytest.raises(ValueError, match="at least 1, got 0"):
        search(open_library(), "heron", 0)


def test_a_deleted_document_is_gone_from_every_index(open_library, file_of, tmp_path):
    library = open_library()
    add(library, file_of(ROCKS, "rocks.txt"))
    before = count_rows(tmp_path)
    document = add(library, file_of(BIRDS, "birds.txt"))[-1].document
    chunks = library.chunks(document.id)
    assert library.delete(document.id) == chunks and chunks
    assert count_rows(tmp_path) == before
    assert all(hit.chunk.document_name == "rocks.txt" for hit in search(library, "the heron waits", 9))
    assert library.chunks(document.id) == [] == library.delete(document.id)


def test_vectors_of_another_embedder_are_rebuilt(open_library, file_of, tmp_path):
    library = open_library()
    document = add(library, file_of(BIRDS))[-1].document
    old = search(library, "kingfisher fish", 3)
    library = open_library(other := WordEmbedder("other words", width=128))
    assert [document.name for document in library.documents_without_vectors()] == ["file.txt"]
    assert [hit.similarity for hit in search(library, "kingfisher fish", 1)] == [None]  # found by words
    list(library.embed_missing())
    assert not library.documents_without_vectors() and not library.notice
    num_batches = math.ceil(document.num_chunks / BATCH_CHUNKS)
    assert other.num_embedded == count_rows(tmp_path)["embeddings"] + num_batches + 1  # a context each, the question
    assert [hit.chunk.id for hit in search(library, "kingfisher fish", 1)] == [old[0].chunk.id]


def test_an_emptied_library_takes_an_embedder_with_other_vectors(open_library, file_of):
    library = open_library()
    library.delete(add(library, file_of(BIRDS))[-1].document.id)
    library = open_library(WordEmbedder("other words", width=128))
    assert add(library, file_of(BIRDS))[-1].stage == "indexed" and not library.documents_without_vectors()


def test_lost_vectors_are_rebuilt(open_library, file_of, tmp_path):
    library = open_library()
    document = add(library, file_of(BIRDS))[-1].document
    before = count_rows(tmp_path)
    library.close()
    with closing(VectorIndex(tmp_path / "library" / "vectors")) as vectors:
        vectors.delete(document.id)
    assert count_rows(tmp_path)["embeddings"] == 0
    list(open_library().embed_missing())
    assert count_rows(tmp_path) == before


def test_damaged_vectors_are_rebuilt(open_library, file_of, tmp_path):
    library = open_library()
    add(library, file_of(BIRDS))
    before, hits = count_rows(tmp_path), search(library, "kingfisher fish", 3)
    library.close()
    (tmp_path / "library" / "vectors" / "chroma.sqlite3").write_bytes(b"no database" * 500)
    library = open_library()
    list(library.embed_missing())
    assert count_rows(tmp_path) == before
    assert search(library, "kingfisher fish", 3) == hits


@contextmanager
def failing(owner, name, error, nth=1):
    """Let a method of a class fail from its nth call on, inside the block."""
    method, calls = getattr(owner, name), count(1)

    def call(*args, **kwargs):
        if next(calls) >= nth:
            raise error
        return method(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, call)
        yield


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EROFS, "Read-only file system"),
        RuntimeError("error returned from database: (code: 13) database or disk is full"),
    ],
    ids=["ENOSPC", "EROFS", "chroma"],
)
def test_a_full_disk_leaves_the_library_as_it_was(open_library, file_of, error, nth, tmp_path):
    library = open_library()
    add(library, file_of(ROCKS, "rocks.txt"))
    before = count_rows(tmp_path), library.documents()
    with failing(Collection, "add", error, nth), pytest.raises(StoreFull, match="Free some disk space"):
        add(library, file_of(BIRDS, "birds.txt"))
    assert (count_rows(tmp_path), library.documents()) == before


def test_leftovers_of_a_full_disk_are_hidden_and_deleted_by_the_next_addition(open_library, file_of, tmp_path):
    library = open_library()
    add(library, file_of(ROCKS, "rocks.txt"))
    adding = library.add(file_of(BIRDS, "birds.txt"), "birds.txt")
    while next(adding).stage != "embedded":
        pass
    with failing(VectorIndex, "delete", StoreFull("The disk is full.")):
        adding.close()
        assert [document.name for document in library.documents()] == ["rocks.txt"]
        assert {hit.chunk.document_name for hit in search(library, "the heron waits", 9)} <= {"rocks.txt"}
        with pytest.raises(StoreFull):
            add(library, file_of("another text", "c.txt"))
    add(library, file_of("another text", "c.txt"))
    assert_consistent(library, tmp_path)


def test_an_unclear_error_on_a_full_disk_is_a_full_disk(open_library, file_of, monkeypatch, tmp_path):
    library = open_library()
    with failing(Collection, "add", InternalError("Failed to apply logs")):
        with pytest.raises(InternalError):
            add(library, file_of(BIRDS))
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=10))
        with pytest.raises(StoreFull, match="Failed to apply logs"):
            add(library, file_of(BIRDS))
    assert count_rows(tmp_path) == NOTHING


def test_a_full_database_leaves_the_library_as_it_was(open_library, file_of, tmp_path, monkeypatch):
    connections, connect = [], sqlite3.connect  # the limit holds for one connection
    with monkeypatch.context() as patch:
        patch.setattr(
            sqlite3,
            "connect",
            lambda *args, **options: connections.append(connect(*args, **options)) or connections[-1],
        )
        library = open_library()
    add(library, file_of(ROCKS, "rocks.txt"))
    before = count_rows(tmp_path), library.documents()
    database = connections[0]
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(StoreFull):
        add(library, file_of("new words " * 1500, "birds.txt"))
    assert (count_rows(tmp_path), library.documents()) == before
    database.execute("PRAGMA max_page_count = 1000000")
    assert add(library, file_of(BIRDS))[-1].document


def test_unreadable_and_large_files_leave_no_trace(open_library, file_of, tmp_path):
    library = open_library()
    for content, error in [
        (b"", UnreadableDocument),
        (b"\0\1\2", UnreadableDocument),
        (b"x" * (50 * 2**20 + 1), DocumentTooLarge),
    ]:
        with pytest.raises(error):
            add(library, file_of(content))
    for path in (tmp_path / "absent.txt", tmp_path):
        with pytest.raises(UnreadableDocument, match="cannot be opened"):
            add(library, path)
    assert count_rows(tmp_path) == NOTHING


def test_a_huge_file_is_rejected_without_reading_all_of_it(open_library, tmp_path):
    path = tmp_path / "huge.txt"
    with path.open("wb") as file:
        file.truncate(10**13)  # sparse: reading it would take an hour
    with pytest.raises(DocumentTooLarge):
        add(open_library(), path)


def test_threads_may_add_search_and_delete_at_once(open_library, file_of, tmp_path):
    library = open_library()
    paths = [file_of(f"{BIRDS} number{number}", f"{number}.txt") for number in range(6)]
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            assert all(hit.chunk.text for hit in search(library, "the heron waits", 3))

    with ThreadPoolExecutor(4) as pool:
        asking = pool.submit(ask)
        added = [steps[-1].document for steps in pool.map(lambda path: add(library, path), paths)]
        list(pool.map(lambda document: library.delete(document.id), added[:3]))
        stop.set()
        asking.result()
    assert {document.id for document in library.documents()} == {document.id for document in added[3:]}
    assert (
        count_rows(tmp_path)["chunks"]
        == count_rows(tmp_path)["words"]
        == sum(document.num_chunks for document in added[3:])
    )


def test_more_vectors_than_one_chroma_batch_are_added_and_deleted(tmp_path):
    rows = np.eye(256, dtype=np.float32)[np.arange(6000) % 256]
    with closing(VectorIndex(tmp_path / "vectors")) as vectors:
        vectors.add("d", [f"d-{number}" for number in range(6000)], rows)
        assert len(vectors) == 6000
        vectors.delete("d")
        assert len(vectors) == 0


def test_a_chunk_knows_its_document_and_headings_and_is_found_by_them(open_library, file_of):
    library = open_library(chunking=ChunkConfig(tokens=6, overlap=0))
    text = "# Hotels\n\n## Limits\n\nAt most 190 pounds.\n\n## Trains\n\nSecond class only."
    document = add(library, file_of(text), "policy-2024.md")[-1].document
    contexts = [chunk.context for chunk in library.chunks(document.id)]
    assert contexts[0] == "policy-2024" and all(each.startswith("policy-2024 > Hotels") for each in contexts[1:])
    (hit,) = [hit for hit in search(library, "2024 hotels", 9) if "190" in hit.chunk.text]
    assert hit.matched_words and hit.chunk.passage == f"{hit.chunk.context}\n\n{hit.chunk.text}"
    library.rename(document.id, "other.md")  # keeps the context, and with it the KV
    assert [chunk.context for chunk in library.chunks(document.id)] == contexts
