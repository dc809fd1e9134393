"""A search limited to documents equals a filtered search of all, and still gives `top_k` hits."""

import sqlite3
from contextlib import closing
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.catalog.catalog import Catalog
from store.catalog.schema import FILE_NAME
from store.fusion import WORD_WEIGHT, hybrid_scores
from store.types import COLLECTION
from tests.store.conftest import search
from tests.support.fakes import WordEmbedder

WORDS = ["heron", "reed", "fish", "granite", "basalt", "sea", "swan", "chalk", "code", "566362", "缓存"]
ALL = 9999
EMBEDDER = WordEmbedder()


@pytest.fixture(scope="module")
def texts():
    """Five documents, each with words of its own and words that others have too."""
    return {
        f"{place}.txt": "\n\n".join(
            f"{WORDS[(place * 3 + line * step) % 11]} lies beside the {WORDS[(place + line) % 11]} of {line}."
            for line in range(12)
        )
        for place, step in enumerate((1, 2, 3, 5, 7))
    }


@pytest.fixture
def filled(open_library, file_of, texts):
    library = open_library(embedder=EMBEDDER)
    for name, text in texts.items():
        list(library.add(file_of(text, name), name))
    return library


def test_a_limited_search_ranks_the_chunks_of_its_documents_only(filled, tmp_path):
    """One library serves all examples, because building it takes longer than all of them."""
    known = sorted(document.id for document in filled.documents())
    catalog = Catalog(tmp_path / "library")

    @given(
        question=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
        documents=st.lists(st.sampled_from([*known, "0" * 64, "unknown"]), min_size=1, max_size=4),
        top_k=st.integers(1, 6),
    )
    def check(question, documents, top_k):
        by_vectors = next(filled.retrieve_stages(question, ALL))
        cosines = {hit.chunk.id: hit.similarity for hit in by_vectors if hit.chunk.document_id in documents}
        words = catalog.bm25.search(question, ALL)
        scores = hybrid_scores(cosines, {chunk: words[chunk] for chunk in cosines if chunk in words}, WORD_WEIGHT)
        hits = search(filled, question, top_k, documents)
        assert [hit.chunk.id for hit in hits] == sorted(scores, key=lambda chunk: (-scores[chunk], chunk))[:top_k]
        assert [hit.score for hit in hits] == pytest.approx([scores[hit.chunk.id] for hit in hits])
        assert len(hits) == min(top_k, sum(len(filled.chunks(document)) for document in set(documents)))

    with closing(catalog):
        check()


def test_every_stage_stays_in_the_chosen_documents(filled):
    chosen = filled.documents()[2].id
    for hits in filled.retrieve_stages("heron of the sea", 4, (chosen,)):
        assert len(hits) == 4 and {hit.chunk.document_id for hit in hits} == {chosen}


def test_deleting_the_chosen_document_during_a_search_adds_no_others(filled):
    chosen = filled.documents()[2].id
    stages = filled.retrieve_stages("heron of the sea", 4, (chosen,))
    assert next(stages)
    filled.delete(chosen)
    assert [hits for hits in stages if hits] == []


def test_no_documents_means_all(filled):
    assert search(filled, "granite code", 5, ()) == search(filled, "granite code", 5)


def test_an_unknown_document_matches_nothing(filled):
    assert search(filled, "granite", 3, ("0" * 64,)) == []


def test_a_chosen_document_that_is_being_added_is_not_found(filled, file_of):
    text = "heron and granite. " * 40
    adding = filled.add(file_of(text, "half.txt"), "half.txt")
    while next(adding).stage != "embedded":
        pass
    half, whole = sha256(text.encode()).hexdigest(), filled.documents()[0].id
    hits = search(filled, "heron and granite", 99, [half, whole])
    assert {hit.chunk.document_id for hit in hits} == {whole}
    adding.close()


def test_chunks_by_id_returns_only_existing_chunks(filled):
    document = filled.documents()[0]
    first, second = filled.chunks(document.id)[:2]
    assert filled.chunks_by_id([second.id, "unknown-0", first.id]) == {first.id: first, second.id: second}
    filled.delete(document.id)
    assert filled.chunks_by_id([first.id]) == {}


def collections(library):
    return {document.name: document.collections for document in library.documents() if document.collections}


def test_a_search_in_a_collection_finds_its_documents_only_also_later_ones(filled, file_of):
    first, second = (document.id for document in filled.documents()[:2])
    filled.add_to_collection([first], " Field\u202enotes\n")
    scope = (f"{COLLECTION}Fieldnotes",)
    assert {hit.chunk.document_id for hit in search(filled, "heron and granite", 99, scope)} == {first}
    filled.add_to_collection([second, "unknown"], "fieldNOTES")
    assert {hit.chunk.document_id for hit in search(filled, "heron and granite", 99, scope)} == {first, second}
    filled.remove_from_collection([first], "Fieldnotes")
    assert {hit.chunk.document_id for hit in search(filled, "heron and granite", 99, scope)} == {second}
    filled.delete(second)
    assert collections(filled) == {} and search(filled, "heron and granite", 3, scope) == []


def test_collections_survive_a_restart_a_rechunk_a_damaged_database_and_damage_to_themselves(
    filled, open_library, tmp_path
):
    document = filled.documents()[0]
    filled.add_to_collection([document.id], "b")
    filled.add_to_collection([document.id], "A")
    filled.add_to_collection([document.id], " \n")
    list(filled.reindex(document.id))
    filled.close()
    expected = {document.name: ("A", "b")}
    assert collections(open_library()) == expected
    open_library().close()
    path = tmp_path / "library" / FILE_NAME
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    library = open_library()
    assert "was damaged" in library.notice and collections(library) == expected
    library.close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE documents SET collections = '[1' WHERE collections != '[]'")
    assert collections(open_library()) == {}


def test_a_library_of_the_version_before_collections_is_migrated(filled, open_library, tmp_path):
    filled.close()
    with closing(sqlite3.connect(tmp_path / "library" / FILE_NAME)) as database, database:
        database.execute("ALTER TABLE documents DROP COLUMN collections")
        database.execute("ALTER TABLE documents DROP COLUMN language")
        database.execute("PRAGMA user_version = 2")
    library = open_library()
    assert library.notice == "" and len(library.documents()) == 5 and collections(library) == {}
    library.add_to_collection([library.documents()[0].id], "new")
    assert len(collections(library)) == 1


def test_a_library_of_the_version_before_languages_gets_them_when_it_is_opened(open_library, file_of, tmp_path):
    german = (
        "Die Katze ist auf dem Dach und der Hund liegt nicht mit ihr in der Sonne, sondern im Schatten des Hauses. "
    )
    library = open_library()
    for name, text in {"tiere.txt": german * 9, "numbers.txt": "12 34 " * 99}.items():
        list(library.add(file_of(text, name), name))
    before = library.documents()
    assert [document.language for document in before] == ["", "German"]
    library.close()
    with closing(sqlite3.connect(tmp_path / "library" / FILE_NAME)) as database, database:
        database.execute("ALTER TABLE documents DROP COLUMN language")
        database.execute("PRAGMA user_version = 3")
    library = open_library()
    assert library.notice == "" and library.documents() == before
    library.close()
    assert open_library().notice == ""  # the checksums are still right
