"""Retrieval from a list of texts: lexical ranking, given order for ties, and the rest of the Finder protocol."""

from engine.prompt.text_finder import TextFinder

TEXTS = ["The ferry sails to Port Arden.", "The tern carries cars.", "The ferry carries dogs to Low Island."]


def texts_of(hits):
    return [hit.chunk.text for hit in hits]


def test_rarer_shared_words_rank_higher_and_ties_keep_the_given_order():
    finder = TextFinder(TEXTS)
    (hits,) = finder.retrieve_stages("Which island has a ferry?", 2)
    assert texts_of(hits) == [TEXTS[2], TEXTS[0]]
    (unrelated,) = finder.retrieve_stages("Zebra?", 3)
    assert texts_of(unrelated) == TEXTS and not any(hit.matched_words for hit in unrelated)


def test_documents_limit_the_search_and_are_found_by_id():
    finder = TextFinder(TEXTS)
    second = finder.documents()[1]
    (hits,) = finder.retrieve_stages("ferry", 3, [second.id])
    assert texts_of(hits) == [TEXTS[1]]
    (chunk,) = finder.chunks(second.id)
    assert finder.chunks_by_id([chunk.id, "missing"]) == {chunk.id: chunk}


def test_no_texts_give_one_empty_stage():
    assert list(TextFinder().retrieve_stages("Why?", 3)) == [[]] and TextFinder().documents() == []
