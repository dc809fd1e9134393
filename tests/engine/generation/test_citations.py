"""The passage sentence that supports each citation."""

import pytest

from engine.generation.citations import RepetitionDetector, cite, quoted_spans

PASSAGES = [
    "The Old Kestrel sails every morning. Its code is 5663623, as the log says.",
    "The Silver Tern carries 18 cars. It was built in 1998.",
]


def quotes(answer):
    return [(rank, PASSAGES[rank - 1][start:end]) for rank, start, end in quoted_spans(answer, PASSAGES)]


def test_a_citation_refers_to_the_sentence_with_the_largest_overlap():
    answer, _ = cite("The code of the Old Kestrel is 5663623. The Silver Tern was built in 1998.", PASSAGES)
    assert "[1]" in answer and "[2]" in answer
    assert quotes(answer) == [(1, "Its code is 5663623, as the log says."), (2, "It was built in 1998.")]


def test_sentences_before_the_cited_one_count_where_they_are_quoted_word_for_word():
    assert quotes(f"{PASSAGES[1]} [2]") == [(2, "It was built in 1998."), (2, "The Silver Tern carries 18 cars.")]
    twice = ["It is 5. See below. It is 5. It is due."]
    assert quoted_spans("It is 5. It is due. [1]", twice) == [(1, 29, 39), (1, 20, 28)]
    assert quotes("The Silver Tern is a ferry. It was built in 1998. [2]") == [(2, "It was built in 1998.")]


def test_a_mark_without_a_passage_or_overlap_has_no_span():
    assert quotes("Nothing [7]. Zebra [1]. [2]") == [] and quoted_spans("Yes [1].", []) == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("It is A S A S A S A S A", "It is A S"),
        ("the end of the end of the end of the end of the", "the end of"),
        ("no no no no", "no"),
    ],
)
def test_a_few_words_that_come_again_and_again_are_a_repetition(text, kept):
    assert text[: RepetitionDetector().update(text)] == kept


@pytest.mark.parametrize(
    "text", ["4 4 4 tons", "a b c a b c", "It is a ferry, a pier, a quay and a ship", "ha haha ha"]
)
def test_single_repetitions_are_none(text):
    assert RepetitionDetector().update(text) is None
