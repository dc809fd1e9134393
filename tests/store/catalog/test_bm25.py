"""A question finds the chunks that contain its words, and no question breaks the search."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.catalog.bm25 import BM25Index, fts_query

TEXTS = {
    "a-0": "The cache keeps keys of five passages",
    "a-1": "Room 566362 is closed; cache it",
    "a-2": "缓存保存注意力的键和值",
    "a-3": "Der Schlüssel heißt NULL OR NOT",
    "a-4": "In May the WHO met",
}


@pytest.fixture(scope="module")
def index():
    index = BM25Index(sqlite3.connect(":memory:"))
    index.add((row, chunk, text) for row, (chunk, text) in enumerate(TEXTS.items()))
    return index


@pytest.mark.parametrize(
    "question, first",
    [
        ("What is in room 566362?", "a-1"),
        ("Which passage?", "a-0"),
        ("caching keys", "a-0"),
        ("注意力是什么", "a-2"),
        ("schlussel", "a-3"),
        ("NOT NULL", "a-3"),
        ("What did they do in May?", "a-4"),
        ("Where is the WHO?", "a-4"),
        ("Schlu\u0308ssel", "a-3"),  # as a Mac writes it
        ("What's the cache's key?", "a-0"),
        ('"passages" NEAR(', "a-0"),
    ],
)
def test_words_find_their_chunk(index, question, first):
    assert next(iter(index.search(question, 4))) == first


@pytest.mark.parametrize("question", ["Wo ist der Autoschl\u00fcssel?", "Wie ist das Schl\u00fcss?"])
def test_a_german_question_finds_compounds_by_their_parts(index, question):
    assert list(index.search(question, 1)) == ["a-3"]


def test_stop_words_count_only_without_other_words(index):
    assert list(index.search("What is of the keys?", 4)) == ["a-0"]  # and not a-1, which has 'is'
    assert list(index.search("What is it?", 4)) == ["a-1"]


@pytest.mark.parametrize(
    "question", ["Which keys? Is that so?", "WHAT IS IN THE KEYS", "What Is In The Keys", "Hello. Is it late?\nIs it?"]
)
def test_a_capital_at_the_start_of_a_sentence_or_of_all_words_marks_no_name(question):
    assert '"is"' not in fts_query(question)


@pytest.mark.parametrize(
    "question, term",
    [("What does 'S' mean?", "s"), ("the parameter 't'", "t"), ("the module 're'", "re"), ("Where, May asks?", "may")],
)
def test_a_quoted_letter_and_a_name_are_searched(question, term):
    assert f'"{term}"' in fts_query(question)


def test_words_shared_by_a_pasted_text_and_its_last_line_are_searched(index):
    pasted = " ".join(f"word{number}" for number in range(300))
    assert list(index.search(f"Room {pasted} Which room is it?", 1)) == ["a-1"]
    assert list(index.search(f"注意 {pasted} 注意", 1)) == ["a-2"]


@pytest.mark.parametrize("question", ["", "   ", "?!*", '"', "zebra", "意思"])
def test_a_question_without_shared_words_finds_nothing(index, question):
    assert list(index.search(question, 4)) == []


@given(st.text())
def test_any_question_is_answered(index, question):
    assert set(index.search(question, 4)) <= set(TEXTS)


@given(st.sampled_from(['"', "'", ";", "DROP TABLE words", "NEAR", "AND", "^", "*", ":", "body", "-", "(", ")", "\0"]))
def test_no_question_is_a_command(index, part):
    assert "a-0" in index.search(f"{part} keys {part}{part}", 4)


def test_the_end_of_a_long_question_is_searched(index):
    pasted = " ".join(f"word{number}" for number in range(300))
    assert list(index.search(f"{pasted} Which room is closed?", 1)) == ["a-1"]


def test_a_very_long_question_is_answered(index):
    assert list(index.search(" ".join(f"word{number}" for number in range(50_000)) + " keys", 4)) == ["a-0"]


def test_at_most_top_k_are_found(index):
    assert len(index.search("cache keys room", 1)) == 1


def test_deleted_chunks_are_not_found():
    index = BM25Index(sqlite3.connect(":memory:"))
    index.add([(1, "a-0", "keys"), (2, "a-1", "keys")])
    index.delete([1])
    assert list(index.search("keys", 4)) == ["a-1"]


def test_an_owner_that_is_a_prefix_of_another_does_not_match_it():
    index = BM25Index(sqlite3.connect(":memory:"))
    index.add([(1, "ab-1", "zebra"), (2, "ab-11", "zebra"), (3, "ab1-1", "zebra"), (4, "a-1", "zebra")])
    assert list(index.search("zebra", 9, ["ab"])) == ["ab-1", "ab-11"]
    assert list(index.search("zebra", 9, [])) == []


@pytest.mark.parametrize("question", ["25 m2", "25 m\u00b2", "the office"])
def test_superscripts_and_ligatures_are_found_as_plain_letters_and_digits(question):
    index = BM25Index(sqlite3.connect(":memory:"))
    index.add([(1, "a-0", "The o\ufb03ce has 25\u00a0m\u00b2."), (2, "b-0", "A garden.")])
    assert list(index.search(question, 1)) == ["a-0"]
