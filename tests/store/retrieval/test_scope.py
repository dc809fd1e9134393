"""A search in chosen documents is the search in all, filtered by hand, and still finds as many as were asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.retrieval.retriever import CANDIDATES_PER_HIT
from store.retrieval.vectors import VectorIndex
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


def fused_by_hand(rankings):
    """The definition of reciprocal rank fusion, spelled out."""
    seen = list(dict.fromkeys(chunk for ranking in rankings for chunk in ranking))
    score = {chunk: sum(1 / (61 + ranking.index(chunk)) for ranking in rankings if chunk in ranking) for chunk in seen}
    return sorted(seen, key=lambda chunk: -score[chunk])


def test_hits_are_those_of_the_chosen_documents_as_if_there_were_no_others(filled):
    """One library for all examples: building it takes longer than all of them."""
    known = sorted(document.id for document in filled.documents())

    @given(
        question=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
        documents=st.lists(st.sampled_from([*known, "0" * 64, "nobody"]), min_size=1, max_size=4),
        top=st.integers(1, 6),
    )
    def law(question, documents, top):
        (vector,) = EMBEDDER.embed([question])
        near = [chunk for chunk, _ in filled._vectors.exact.search(vector, ALL) if chunk.rsplit("-", 1)[0] in documents]
        worded = [chunk for chunk in filled._catalog.bm25.search(question, ALL) if chunk.rsplit("-", 1)[0] in documents]
        wanted = top * CANDIDATES_PER_HIT
        expected = fused_by_hand([near[:wanted], worded[:wanted]])[:top]
        found = [hit.chunk.id for hit in filled.search(question, top, documents)]
        assert found == expected
        assert len(found) == min(top, sum(len(filled.chunks(document)) for document in set(documents)))

    law()


def test_every_stage_keeps_to_the_chosen_documents(filled):
    chosen = filled.documents()[2].id
    for hits in filled.retrieve_stages("heron of the sea", 4, (chosen,)):
        assert len(hits) == 4 and {hit.chunk.document_id for hit in hits} == {chosen}


def test_a_chosen_document_that_goes_during_a_search_lets_no_other_in(filled):
    chosen = filled.documents()[2].id
    stages = filled.retrieve_stages("heron of the sea", 4, (chosen,))
    assert next(stages)
    filled.delete(chosen)
    assert [hits for hits in stages if hits] == []


def test_no_chosen_document_is_all_of_them(filled):
    assert filled.search("granite code", 5, ()) == filled.search("granite code", 5)


def test_a_document_that_is_not_there_finds_nothing(filled):
    assert filled.search("granite", 3, ("0" * 64,)) == []


def test_a_chosen_document_that_is_being_added_is_not_found(filled, tmp_path):
    index = VectorIndex(tmp_path / "apart")
    index.add("whole", ["whole-0"], EMBEDDER.embed(["heron"]))
    index.add("half", ["half-0"], EMBEDDER.embed(["heron"]))
    (vector,) = EMBEDDER.embed(["heron"])
    assert [chunk for chunk, _ in index.exact.search(vector, 9, excluded=["half"], owners=["half", "whole"])] == [
        "whole-0"
    ]
    index.close()


def test_a_document_whose_id_begins_like_another_is_another(filled):
    lexical = filled._catalog.bm25
    lexical.add([(900, "ab-1", "zebra"), (901, "ab-11", "zebra"), (902, "ab1-1", "zebra"), (903, "a-1", "zebra")])
    assert lexical.search("zebra", 9, ["ab"]) == ["ab-1", "ab-11"]


def test_chunks_are_found_by_their_ids_and_only_those_that_are_there(filled):
    document = filled.documents()[0]
    first, second = filled.chunks(document.id)[:2]
    assert filled.chunks_by_id([second.id, "nobody-0", first.id]) == {first.id: first, second.id: second}
    filled.delete(document.id)
    assert filled.chunks_by_id([first.id]) == {}
