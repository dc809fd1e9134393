"""A document's text comes back from its chunks, and a new cut takes the old one's place whole or not at all."""

import os
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.catalog.document_text import ChunkText, make_chunks, make_excerpt, gaps_before, estimate_page_starts, join_chunks, excerpt_span
from store.errors import NoSuchDocument, StoreFull
from store.ingest import ParsedDocument
from store.ingest.chunker import ChunkConfig, split
from store.library.library import LibraryConfig
from store.types import Document
from tests.store.conftest import SMALL
from tests.store.library.test_library import BIRDS, ROCKS, Full, add, traces
from tests.support.fakes import WordEmbedder, word_tokenizer
from tests.support.files import pdf
from tests.support.victim import killed

WIDE = LibraryConfig(chunking=ChunkConfig(tokens=45, overlap=9), batch_chunks=2)
DRAFT = Document("d", "a.txt", 1, None, 0, 0.0)
TEXTS = st.lists(
    st.tuples(
        st.text("ab\u5b57\u00e9.!", min_size=1, max_size=9), st.sampled_from([" ", "\n", "\n\n", " \n \t\n", "\t"])
    ),
    min_size=1,
    max_size=80,
).map(lambda parts: "".join(word + space for word, space in parts))
CUTS = st.integers(1, 12).flatmap(lambda tokens: st.builds(ChunkConfig, st.just(tokens), st.integers(0, tokens - 1)))
TOKENIZER = word_tokenizer()


def cut(text, config, starts=()):
    return make_chunks(DRAFT, "d", ParsedDocument(text, starts), split(text, TOKENIZER, config))


def cuts_of(library, document):
    return [(chunk.start, chunk.end) for chunk in library.chunks(document.id)]


def whole(library, embedder=None):
    """Check that every index holds the documents' chunks and nothing else."""
    chunks = [chunk for document in library.documents() for chunk in library.chunks(document.id)]
    passages = sum(len((embedder or WordEmbedder()).segments(chunk.text)) for chunk in chunks)
    counted = {"vectors": passages, "documents": len(library.documents()), "chunks": len(chunks), "words": len(chunks)}
    assert traces(library) == counted


@given(TEXTS, CUTS)
def test_a_text_comes_back_from_its_chunks_and_gaps(text, config):
    chunks = cut(text, config)
    slices = [ChunkText(chunk.start, chunk.text, gap) for chunk, gap in zip(chunks, gaps_before(text, chunks), strict=True)]
    assert join_chunks(slices) == text[: chunks[-1].end]


@given(TEXTS, CUTS)
def test_without_gaps_every_offset_holds_and_only_white_space_differs(text, config):
    chunks = cut(text, config)
    back = join_chunks([ChunkText(chunk.start, chunk.text, None) for chunk in chunks])
    assert all(back[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert len(back) == chunks[-1].end and back.split() == text.split()


@given(TEXTS, CUTS, st.data())
def test_an_excerpt_holds_its_passage_and_stays_inside_the_pages_it_touches(text, config, data):
    starts = tuple(sorted({0, *data.draw(st.lists(st.integers(0, len(text)), max_size=4))}))
    chunks = cut(text, config, starts)
    chunk, length = data.draw(st.sampled_from(chunks)), chunks[-1].end
    begin, end = excerpt_span(chunk, starts, length)
    shown = make_excerpt(chunk, text[begin:end], begin, starts, length)
    assert shown.text[shown.start : shown.end] == chunk.text
    page = starts[chunk.page - 1]
    assert page <= chunk.start - shown.start and shown.text == text[chunk.start - shown.start :][: len(shown.text)]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_guessed_pages_give_each_chunk_its_own_page(steps):
    pages = [sum(steps[: number + 1]) for number in range(len(steps))]
    places = [(10 * number, page) for number, page in enumerate(pages)]
    parsed = ParsedDocument("x" * 100, estimate_page_starts(pages[-1] + 2, places, 100))
    assert [parsed.page_of(start) for start, _ in places[1:]] == pages[1:]


def test_a_passage_is_shown_on_its_page(open_library, file_of):
    library = open_library(config=LibraryConfig(chunking=ChunkConfig(tokens=3, overlap=0)))
    document = add(library, file_of(pdf("alpha beta gamma delta", "", "epsilon zeta"), "a.pdf"))[-1].document
    first, last = (library.excerpt(chunk.id) for chunk in library.chunks(document.id))
    assert first.text == "alpha beta gamma delta" and first.text[first.start : first.end] == "alpha beta gamma"
    assert first.chunk.page == 1 and not first.truncated_before and not first.truncated_after
    assert last.text.split() == ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]  # it runs over to page 3
    assert last.text[last.start : last.end].split() == ["delta", "epsilon", "zeta"]
    assert [last.page_at(last.text.index(word)) for word in ("alpha", "delta", "epsilon")] == [1, 1, 3]
    assert first.pages == ((0, 1),)


def test_a_passage_without_pages_is_shown_with_what_stands_around_it(open_library, file_of):
    text = " ".join(f"word{number}" for number in range(2000))
    library = open_library()
    document = add(library, file_of(text))[-1].document
    middle = library.chunks(document.id)[document.num_chunks // 2]
    found = library.excerpt(middle.id)
    assert found.text[found.start : found.end] == middle.text and found.truncated_before and found.truncated_after
    assert f" {found.text} " in text and 2500 < len(found.text) < 3300
    assert not library.excerpt(library.chunks(document.id)[0].id).truncated_before
    with pytest.raises(NoSuchDocument):
        library.excerpt("nothing-0")


def test_a_new_cut_is_the_one_that_adding_would_have_made(open_library, file_of):
    library = open_library()
    document = add(library, file_of(BIRDS))[-1].document
    old = library.chunks(document.id)
    library = open_library(config=WIDE)
    assert library.needs_rechunk(document) and cuts_of(library, document) == [(chunk.start, chunk.end) for chunk in old]
    steps = list(library.reindex(document.id))
    assert {step.stage for step in steps} == {"chunked", "embedded", "indexed"}
    renewed = steps[-1].document
    assert cuts_of(library, renewed) == split(BIRDS, TOKENIZER, WIDE.chunking) and renewed.num_chunks < document.num_chunks
    assert not library.needs_rechunk(renewed) and (renewed.chunk_tokens, renewed.chunk_overlap) == (45, 9)
    assert library.text(document.id) == BIRDS.rstrip()
    assert not {chunk.id for chunk in old} & {chunk.id for chunk in library.chunks(document.id)}
    whole(library)
    before = library.search("kingfisher fish", 3)
    assert "kingfisher" in before[0].chunk.text
    library = open_library(embedder := WordEmbedder(), config=WIDE)
    assert library.search("kingfisher fish", 3) == before and embedder.num_embedded == 1  # the question alone


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS, CUTS)
def test_any_text_survives_any_new_cut(open_library, file_of, text, config):
    library = open_library(config=LibraryConfig(chunking=config))
    document = add(library, file_of(text))[-1].document
    library = open_library(config=WIDE)
    list(library.reindex(document.id))
    assert library.text(document.id) == text.rstrip()
    assert cuts_of(library, document) == split(text, TOKENIZER, WIDE.chunking)
    library.delete(document.id)
    assert set(traces(library).values()) == {0}


def test_a_document_can_be_cut_again_and_again_and_deleted(open_library, file_of):
    library = open_library()
    add(library, file_of(ROCKS, "rocks.txt"))
    before = traces(library)
    document = add(library, file_of(BIRDS, "birds.txt"))[-1].document
    for _ in range(3):
        list(library.reindex(document.id))
        whole(library)
    assert cuts_of(library, document) == split(BIRDS, TOKENIZER, SMALL.chunking)
    library.delete(document.id)
    assert traces(library) == before
    assert add(library, file_of(BIRDS, "birds.txt"))[-1].document.name == "birds.txt"


@pytest.mark.parametrize("steps", range(4))
def test_a_new_cut_closed_early_leaves_the_old_one(open_library, file_of, steps):
    document = add(open_library(), file_of(BIRDS))[-1].document
    library = open_library(config=WIDE)
    before = library.documents(), library.chunks(document.id), traces(library), library.search("kingfisher", 3)
    cutting = library.reindex(document.id)
    for _ in range(steps):
        assert next(cutting).stage != "indexed"
        assert library.search("kingfisher", 3) == before[3]
    cutting.close()
    assert (
        library.documents(),
        library.chunks(document.id),
        traces(library),
        library.search("kingfisher", 3),
    ) == before
    assert list(library.reindex(document.id))[-1].document.num_chunks < document.num_chunks


def test_a_document_deleted_while_it_is_cut_anew_is_gone(open_library, file_of):
    library = open_library()
    document = add(library, file_of(BIRDS))[-1].document
    cutting = library.reindex(document.id)
    while next(cutting).stage != "embedded":
        pass
    library.delete(document.id)
    with pytest.raises(NoSuchDocument, match="refresh the list"):
        list(cutting)
    assert set(traces(library).values()) == {0}
    with pytest.raises(NoSuchDocument):
        list(library.reindex(document.id))


def test_two_new_cuts_at_once_are_one(open_library, file_of):
    library = open_library()
    document = add(library, file_of(BIRDS))[-1].document
    first = library.reindex(document.id)
    next(first)
    assert [step.warning for step in library.reindex(document.id)] == ["It is already being re-indexed."]
    list(first)
    whole(library)


def test_a_full_disk_leaves_the_old_cut(open_library, file_of):
    document = add(open_library(), file_of(BIRDS))[-1].document
    library = open_library(config=WIDE)
    before = library.documents(), library.chunks(document.id), traces(library)
    real, library._vectors.add = library._vectors.add, Full(None, StoreFull("The disk is full."))
    with pytest.raises(StoreFull):
        list(library.reindex(document.id))
    assert (library.documents(), library.chunks(document.id), traces(library)) == before
    library._vectors.add = real
    list(library.reindex(document.id))
    whole(library)


def test_an_old_cut_that_could_not_be_removed_is_never_found_and_goes_later(open_library, file_of):
    document = add(open_library(), file_of(BIRDS))[-1].document
    library = open_library(config=WIDE)
    real, library._vectors.delete = library._vectors.delete, Full(None, StoreFull("The disk is full."))
    list(library.reindex(document.id))
    found = library.search("the heron waits", 9)
    assert {hit.chunk.id for hit in found} <= {chunk.id for chunk in library.chunks(document.id)} and found
    library._vectors.delete = real
    list(library.reindex(document.id))
    whole(library)


def test_a_new_name_is_everywhere_and_never_twice(open_library, file_of):
    library = open_library()
    document = add(library, file_of(BIRDS), "birds.txt")[-1].document
    add(library, file_of(ROCKS), "rocks.txt")
    assert library.rename(document.id, "../wing\x07s\u202e.txt").name == "wings.txt"
    assert {chunk.document_name for chunk in library.chunks(document.id)} == {"wings.txt"}
    assert library.search("kingfisher", 1)[0].chunk.document_name == "wings.txt"
    assert library.rename(document.id, "wings.txt").name == "wings.txt"
    assert library.rename(document.id, "rocks.txt").name == "rocks (2).txt"
    assert sorted(each.name for each in open_library().documents()) == ["rocks (2).txt", "rocks.txt"]
    with pytest.raises(NoSuchDocument):
        open_library().rename("nothing", "a.txt")


def test_a_name_given_during_a_new_cut_stays(open_library, file_of):
    library = open_library()
    document = add(library, file_of(BIRDS), "birds.txt")[-1].document
    cutting = library.reindex(document.id)
    next(cutting)
    library.rename(document.id, "wings.txt")
    assert list(cutting)[-1].document.name == library.documents()[0].name == "wings.txt"


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


def test_a_library_of_an_earlier_version_opens_and_can_be_cut_anew(open_library, tmp_path):
    (tmp_path / "library").mkdir()
    text = "One two three.\n\nFour five six.\n\nSeven eight nine."
    with sqlite3.connect(tmp_path / "library" / "library.sqlite3") as old:
        old.executescript(OLD_SCHEMA)
        old.execute("INSERT INTO documents VALUES ('abc', 'old.pdf', 60, 2, 3, 1.0, 3, 0)")
        for number, (start, end) in enumerate([(0, 14), (16, 30), (32, 49)]):
            values = (f"abc-{number}", "abc", number, 1 + number // 2, start, end, text[start:end])
            old.execute("INSERT INTO chunks VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", values)
    old.close()
    library = open_library(config=LibraryConfig())
    (document,) = library.documents()
    assert (document.warning, document.chunk_tokens) == ("", None) and not library.needs_rechunk(document)
    assert library.text("abc") == text and library.excerpt("abc-2").chunk.page == 2
    library = open_library(config=WIDE)
    assert library.needs_rechunk(document)
    assert list(library.reindex("abc"))[-1].document.num_chunks == 1 and library.text("abc") == text
    assert library.search("eight", 1)[0].chunk.id == "abc.1-0"


def test_a_document_that_was_cut_anew_is_still_found_where_it_is_chosen(open_library, file_of):
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
from tests.store.library.test_rechunk import WIDE
from tests.support.fakes import WordEmbedder, word_tokenizer
from store.library.library import DocumentLibrary

library = DocumentLibrary(Path(sys.argv[1]), word_tokenizer(), WordEmbedder(), WIDE)
print("open", flush=True)
for step in library.reindex(sys.argv[2]):
    print(step.stage, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.parametrize("seed, stage", enumerate(["chunked", "embedded", "indexed"]))
def test_a_killed_recut_leaves_the_old_cut_or_the_new_one(open_library, file_of, tmp_path, seed, stage):
    text = "\n\n".join(f"{BIRDS} number{number}" for number in range(12))
    library = open_library()
    document = add(library, file_of(text, "birds.txt"))[-1].document
    old = cuts_of(library, document)
    library.close()
    killed(VICTIM, tmp_path / "library", document.id, stage=stage, seed=seed)
    library = open_library(config=WIDE)
    assert cuts_of(library, document) in (old, split(text, TOKENIZER, WIDE.chunking))
    whole(library)
    assert library.text(document.id) == text.rstrip() and "number7" in library.search("number7", 1)[0].chunk.text
    list(library.reindex(document.id))
    assert cuts_of(library, document) == split(text, TOKENIZER, WIDE.chunking)
