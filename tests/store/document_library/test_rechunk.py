"""A document's text can be restored from its chunks; re-chunking replaces the old version as a whole or not at all."""

import os
import sqlite3
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.catalog.catalog import Catalog
from store.catalog.document_text import estimate_page_starts, gaps_before, join_chunks, make_chunks, take_excerpt
from store.errors import NoSuchDocument, StoreFull
from store.ingest.chunker import ChunkConfig, chunk_config_of, split
from store.ingest.document import ParsedDocument
from store.retrieval.vectors import VectorIndex
from store.types import Document
from tests.store.conftest import SMALL, search
from tests.store.document_library.test_library import BIRDS, ROCKS, add, assert_consistent, count_rows, failing
from tests.support.fakes import WordEmbedder, word_tokenizer
from tests.support.files import pdf
from tests.support.victim import kill_at_stage, kills

WIDE = ChunkConfig(tokens=45, overlap=9)
DRAFT = Document("d", "a.txt", 1, None, 0, 0.0)
TEXTS = st.lists(
    st.tuples(
        st.text("ab\u5b57\u00e9.!", min_size=1, max_size=9), st.sampled_from([" ", "\n", "\n\n", " \n \t\n", "\t"])
    ),
    min_size=1,
    max_size=80,
).map(lambda parts: "".join(word + space for word, space in parts))
CONFIGS = st.integers(1, 12).flatmap(lambda tokens: st.builds(ChunkConfig, st.just(tokens), st.integers(0, tokens - 1)))
TOKENIZER = word_tokenizer()


def chunk_text(text, config, starts=()):
    return make_chunks(DRAFT, "d", ParsedDocument(text, starts), split(text, TOKENIZER, config))


def needs_rechunk(library, document):
    return chunk_config_of(document) != library.info().chunking


def spans_of(library, document):
    return [(chunk.start, chunk.end) for chunk in library.chunks(document.id)]


def text_of(tmp_path, document):
    """Return the text from which a document is re-chunked."""
    with closing(Catalog(tmp_path / "library")) as catalog:
        return catalog.parsed(document.id).text


@given(TEXTS, CONFIGS)
def test_chunks_and_gaps_restore_the_text(text, config):
    chunks = chunk_text(text, config)
    slices = [(chunk.start, chunk.text, gap) for chunk, gap in zip(chunks, gaps_before(text, chunks), strict=True)]
    assert join_chunks(slices) == text[: chunks[-1].end]


@given(TEXTS, CONFIGS)
def test_without_gaps_every_offset_holds_and_only_white_space_differs(text, config):
    chunks = chunk_text(text, config)
    restored = join_chunks([(chunk.start, chunk.text, None) for chunk in chunks])
    assert all(restored[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert len(restored) == chunks[-1].end and restored.split() == text.split()


@given(TEXTS, CONFIGS, st.data())
def test_an_excerpt_contains_its_chunk_and_stays_inside_its_pages(text, config, data):
    starts = tuple(sorted({0, *data.draw(st.lists(st.integers(0, len(text)), max_size=4))}))
    chunks = chunk_text(text, config, starts)
    chunk = data.draw(st.sampled_from(chunks))
    shown = take_excerpt(chunk, ParsedDocument(text[: chunks[-1].end], starts))
    assert shown.text[shown.start : shown.end] == chunk.text
    page = starts[chunk.page - 1]
    assert page <= chunk.start - shown.start and shown.text == text[chunk.start - shown.start :][: len(shown.text)]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_estimated_page_starts_give_each_chunk_its_page(steps):
    pages = [sum(steps[: number + 1]) for number in range(len(steps))]
    places = [(10 * number, page) for number, page in enumerate(pages)]
    parsed = ParsedDocument("x" * 100, estimate_page_starts(pages[-1] + 2, places, 100))
    assert [parsed.page_of(start) for start, _ in places[1:]] == pages[1:]


def test_an_excerpt_shows_the_page_of_a_chunk(open_library, file_of):
    library = open_library(chunking=ChunkConfig(tokens=3, overlap=0))
    document = add(library, file_of(pdf("alpha beta gamma delta", "", "epsilon zeta"), "a.pdf"))[-1].document
    first, last = (library.excerpt(chunk.id) for chunk in library.chunks(document.id))
    assert first.text == "alpha beta gamma delta" and first.text[first.start : first.end] == "alpha beta gamma"
    assert first.chunk.page == 1 and not first.truncated_before and not first.truncated_after
    assert last.text.split() == ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]  # it runs over to page 3
    assert last.text[last.start : last.end].split() == ["delta", "epsilon", "zeta"]
    assert [last.page_at(last.text.index(word)) for word in ("alpha", "delta", "epsilon")] == [1, 1, 3]
    assert first.pages == ((0, 1),)


def test_an_excerpt_without_pages_shows_the_text_around_the_chunk(open_library, file_of):
    text = " ".join(f"word{number}" for number in range(2000))
    library = open_library()
    document = add(library, file_of(text))[-1].document
    middle = library.chunks(document.id)[document.num_chunks // 2]
    excerpt = library.excerpt(middle.id)
    assert (
        excerpt.text[excerpt.start : excerpt.end] == middle.text
        and excerpt.truncated_before
        and excerpt.truncated_after
    )
    assert f" {excerpt.text} " in text and 2500 < len(excerpt.text) < 3300
    assert not library.excerpt(library.chunks(document.id)[0].id).truncated_before
    with pytest.raises(NoSuchDocument):
        library.excerpt("nothing-0")


def test_reindexing_gives_the_same_chunks_as_adding(open_library, file_of, tmp_path):
    library = open_library()
    document = add(library, file_of(BIRDS))[-1].document
    old = library.chunks(document.id)
    library = open_library(chunking=WIDE)
    assert needs_rechunk(library, document)
    assert spans_of(library, document) == [(chunk.start, chunk.end) for chunk in old]
    steps = list(library.reindex(document.id))
    assert {step.stage for step in steps} == {"chunked", "embedded", "indexed"}
    rechunked = steps[-1].document
    assert spans_of(library, rechunked) == split(BIRDS, TOKENIZER, WIDE) and rechunked.num_chunks < document.num_chunks
    assert not needs_rechunk(library, rechunked) and (rechunked.chunk_tokens, rechunked.chunk_overlap) == (45, 9)
    assert text_of(tmp_path, document) == BIRDS.rstrip()
    assert not {chunk.id for chunk in old} & {chunk.id for chunk in library.chunks(document.id)}
    assert_consistent(library, tmp_path)
    before = search(library, "kingfisher fish", 3)
    assert "kingfisher" in before[0].chunk.text
    library = open_library(embedder := WordEmbedder(), chunking=WIDE)
    assert search(library, "kingfisher fish", 3) == before and embedder.num_embedded == 1  # the question alone


@settings(max_examples=settings().max_examples // 3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS, CONFIGS)
def test_any_text_survives_reindexing(open_library, file_of, tmp_path, text, config):
    library = open_library(chunking=config)
    document = add(library, file_of(text))[-1].document
    library = open_library(chunking=WIDE)
    list(library.reindex(document.id))
    assert text_of(tmp_path, document) == text.rstrip()
    assert spans_of(library, document) == split(text, TOKENIZER, WIDE)
    library.delete(document.id)
    assert set(count_rows(tmp_path).values()) == {0}


def test_a_document_can_be_reindexed_repeatedly_and_deleted(open_library, file_of, tmp_path):
    library = open_library()
    add(library, file_of(ROCKS, "rocks.txt"))
    before = count_rows(tmp_path)
    document = add(library, file_of(BIRDS, "birds.txt"))[-1].document
    for _ in range(3):
        list(library.reindex(document.id))
        assert_consistent(library, tmp_path)
    assert spans_of(library, document) == split(BIRDS, TOKENIZER, SMALL)
    library.delete(document.id)
    assert count_rows(tmp_path) == before
    assert add(library, file_of(BIRDS, "birds.txt"))[-1].document.name == "birds.txt"


@pytest.mark.parametrize("steps", range(4))
def test_reindexing_closed_early_keeps_the_old_version(open_library, file_of, steps, tmp_path):
    document = add(open_library(), file_of(BIRDS))[-1].document
    library = open_library(chunking=WIDE)
    before = library.documents(), library.chunks(document.id), count_rows(tmp_path), search(library, "kingfisher", 3)
    reindexing = library.reindex(document.id)
    for _ in range(steps):
        assert next(reindexing).stage != "indexed"
        assert search(library, "kingfisher", 3) == before[3]
    reindexing.close()
    assert (
        library.documents(),
        library.chunks(document.id),
        count_rows(tmp_path),
        search(library, "kingfisher", 3),
    ) == before
    assert list(library.reindex(document.id))[-1].document.num_chunks < document.num_chunks


def test_a_document_deleted_during_reindexing_is_gone(open_library, file_of, tmp_path):
    library = open_library()
    document = add(library, file_of(BIRDS))[-1].document
    reindexing = library.reindex(document.id)
    while next(reindexing).stage != "embedded":
        pass
    library.delete(document.id)
    with pytest.raises(NoSuchDocument, match="refresh the list"):
        list(reindexing)
    assert set(count_rows(tmp_path).values()) == {0}
    with pytest.raises(NoSuchDocument):
        list(library.reindex(document.id))


def test_a_second_concurrent_reindexing_is_rejected_with_a_warning(open_library, file_of, tmp_path):
    library = open_library()
    document = add(library, file_of(BIRDS))[-1].document
    first = library.reindex(document.id)
    next(first)
    assert [step.warning for step in library.reindex(document.id)] == ["It is already being re-indexed."]
    list(first)
    assert_consistent(library, tmp_path)


def test_a_full_disk_keeps_the_old_version(open_library, file_of, tmp_path):
    document = add(open_library(), file_of(BIRDS))[-1].document
    library = open_library(chunking=WIDE)
    before = library.documents(), library.chunks(document.id), count_rows(tmp_path)
    with failing(VectorIndex, "add", StoreFull("The disk is full.")), pytest.raises(StoreFull):
        list(library.reindex(document.id))
    assert (library.documents(), library.chunks(document.id), count_rows(tmp_path)) == before
    list(library.reindex(document.id))
    assert_consistent(library, tmp_path)


def test_an_old_version_that_could_not_be_deleted_is_hidden_and_deleted_later(open_library, file_of, tmp_path):
    document = add(open_library(), file_of(BIRDS))[-1].document
    library = open_library(chunking=WIDE)
    with failing(VectorIndex, "delete", StoreFull("The disk is full.")):
        list(library.reindex(document.id))
    hits = search(library, "the heron waits", 9)
    assert {hit.chunk.id for hit in hits} <= {chunk.id for chunk in library.chunks(document.id)} and hits
    list(library.reindex(document.id))
    assert_consistent(library, tmp_path)


def test_a_new_name_appears_everywhere_and_is_unique(open_library, file_of):
    library = open_library()
    document = add(library, file_of(BIRDS), "birds.txt")[-1].document
    add(library, file_of(ROCKS), "rocks.txt")
    assert library.rename(document.id, "../wing\x07s\u202e.txt").name == "wings.txt"
    assert {chunk.document_name for chunk in library.chunks(document.id)} == {"wings.txt"}
    assert search(library, "kingfisher", 1)[0].chunk.document_name == "wings.txt"
    assert library.rename(document.id, "wings.txt").name == "wings.txt"
    assert library.rename(document.id, "rocks.txt").name == "rocks (2).txt"
    assert sorted(each.name for each in open_library().documents()) == ["rocks (2).txt", "rocks.txt"]
    with pytest.raises(NoSuchDocument):
        open_library().rename("nothing", "a.txt")


def test_a_name_given_during_reindexing_stays(open_library, file_of):
    library = open_library()
    document = add(library, file_of(BIRDS), "birds.txt")[-1].document
    reindexing = library.reindex(document.id)
    next(reindexing)
    library.rename(document.id, "wings.txt")
    assert list(reindexing)[-1].document.name == library.documents()[0].name == "wings.txt"


OLD_SCHEMA = """
CREATE TABLE documents (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, size_bytes INTEGER NOT NULL, pages INTEGER, chunks INTEGER NOT NULL,
    added_at REAL NOT NULL, passages INTEGER NOT NULL, pending INTEGER NOT NULL
);
CREATE TABLE chunks (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, document_id TEXT NOT NULL, number INTEGER NOT NULL,
    page INTEGER, start INTEGER NOT NULL, end INTEGER NOT NULL, text TEXT NOT NULL
);
CREATE INDEX chunks_of_document ON chunks (document_id, number);
"""


def test_a_library_of_an_earlier_version_opens_and_can_be_reindexed(open_library, tmp_path):
    (tmp_path / "library").mkdir()
    text = "One two three.\n\nFour five six.\n\nSeven eight nine."
    with sqlite3.connect(tmp_path / "library" / "library.sqlite3") as old:
        old.executescript(OLD_SCHEMA)
        old.execute("INSERT INTO documents VALUES ('abc', 'old.pdf', 60, 2, 3, 1.0, 3, 0)")
        for number, (start, end) in enumerate([(0, 14), (16, 30), (32, 49)]):
            values = (f"abc-{number}", "abc", number, 1 + number // 2, start, end, text[start:end])
            old.execute("INSERT INTO chunks VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", values)
    old.close()
    library = open_library(chunking=ChunkConfig())
    (document,) = library.documents()
    assert (document.warning, document.chunk_tokens) == ("", None) and not needs_rechunk(library, document)
    assert text_of(tmp_path, document) == text and library.excerpt("abc-2").chunk.page == 2
    library = open_library(chunking=WIDE)
    assert needs_rechunk(library, document)
    assert list(library.reindex("abc"))[-1].document.num_chunks == 1 and text_of(tmp_path, document) == text
    assert search(library, "eight", 1)[0].chunk.id == "abc.1-0"
    assert library.documents()[0].is_outdated  # its pages were not parsed again


def test_markdown_tables_of_an_earlier_version_get_their_headers_when_reindexed(open_library, file_of, tmp_path):
    library = open_library(chunking=WIDE)
    document = add(library, file_of("Fees:\n\n| Fee: Dog | Euro: 6 |"), "fees.md")[-1].document
    assert not document.is_outdated
    library.close()
    with closing(sqlite3.connect(tmp_path / "library" / "library.sqlite3")) as database, database:
        database.execute("ALTER TABLE documents DROP COLUMN checksum")
        database.execute("ALTER TABLE documents DROP COLUMN collections")
        database.execute("ALTER TABLE documents DROP COLUMN language")
        database.execute("PRAGMA user_version = 1")
        database.execute("UPDATE documents SET parser_version = NULL")
        database.execute("UPDATE chunks SET text = 'Fees:\n\n| Fee | Euro |\n|---|---|\n| Dog | 6 |', context = ''")
    library = open_library(chunking=WIDE)
    assert library.documents()[0].is_outdated
    document = list(library.reindex(document.id))[-1].document
    (chunk,) = library.chunks(document.id)
    assert chunk.text == "Fees:\n\n| Fee: Dog | Euro: 6 |" and chunk.context == "fees"
    assert not document.is_outdated


def test_a_reindexed_document_is_found_in_a_search_limited_to_it(open_library, file_of):
    library = open_library()
    first = add(library, file_of(BIRDS, "birds.txt"))[-1].document
    add(library, file_of("Granite is hard. The heron is not made of it.", "stones.txt"))
    for _ in range(2):
        list(library.reindex(first.id))
        for hits in library.retrieve_stages("heron", 5, (first.id,)):
            assert hits and {hit.chunk.document_id for hit in hits} == {first.id}


VICTIM = """
import sys
from pathlib import Path
from tests.store.document_library.test_rechunk import WIDE
from tests.support.fakes import WordEmbedder, word_tokenizer
from store.document_library import DocumentLibrary

library = DocumentLibrary(Path(sys.argv[1]), word_tokenizer(), WordEmbedder(), WIDE)
print("open", flush=True)
for step in library.reindex(sys.argv[2]):
    print(step.stage, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.parametrize("seed, stage", kills("chunked", "embedded", "indexed"))
def test_killed_reindexing_leaves_the_old_or_the_new_version(open_library, file_of, tmp_path, seed, stage):
    text = "\n\n".join(f"{BIRDS} number{number}" for number in range(12))
    library = open_library()
    document = add(library, file_of(text, "birds.txt"))[-1].document
    old = spans_of(library, document)
    library.close()
    kill_at_stage(VICTIM, tmp_path / "library", document.id, stage=stage, seed=seed)
    library = open_library(chunking=WIDE)
    assert spans_of(library, document) in (old, split(text, TOKENIZER, WIDE))
    assert_consistent(library, tmp_path)
    assert text_of(tmp_path, document) == text.rstrip() and "number7" in search(library, "number7", 1)[0].chunk.text
    list(library.reindex(document.id))
    assert spans_of(library, document) == split(text, TOKENIZER, WIDE)
