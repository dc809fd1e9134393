"""The text after a question in a document is the answer to a question like it; the question itself never is."""

import pytest

from engine.generation.confidence import Confidence
from tests.support.evidence import Scorer, evidence, texts_of

EMAIL = """Hello,

When can I collect my order?
It will be ready on Friday. Ring the bell.

Can you deliver to Tolsford?
Yes, on Mondays. It costs 18 euros.

May dogs come in?
Small ones yes, large dogs are not allowed."""
FAQ = """# Questions

## How much is the annual fee?

It is 28 euros. Students pay half.

## 2. Where can I park?

- Behind the hall
- In Mill Lane

## Other

Parking costs 3 euros."""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When can I collect my order?", ["It will be ready on Friday.", "Ring the bell."]),
        ("When can I collect the order?", ["It will be ready on Friday.", "Ring the bell."]),
        ("Can you deliver to Tolsford?", ["Yes, on Mondays.", "It costs 18 euros."]),
        ("How much is the annual fee of the club?", ["It is 28 euros.", "Students pay half."]),
        ("Where can I park?", ["Behind the hall", "In Mill Lane"]),
    ],
)
def test_the_answer_is_all_of_the_text_after_the_question(question, expected):
    found = evidence(question, Scorer("3 euros"), EMAIL, FAQ)
    assert found.has_answer and texts_of(found.quoted_answer()) == expected


@pytest.mark.parametrize(
    "question", ["Where can I collect my order?", "How much is it?", "When is the annual fee due?"]
)
def test_another_question_is_not_answered_by_it(question):
    assert evidence(question, Scorer("3 euros"), EMAIL, FAQ).quoted_answer() == []


def test_a_question_without_an_answer_is_passed_over():
    asked = "When can I collect my order?\nCan you deliver it?\n\nBest wishes"
    found = evidence("When can I collect my order?", Scorer("Friday"), asked, EMAIL)
    assert texts_of(found.quoted_answer()) == ["It will be ready on Friday.", "Ring the bell."]


def test_a_question_of_the_document_is_quoted_only_if_nothing_else_is_there():
    for text, expected in (
        (EMAIL, "Small ones yes, large dogs are not allowed."),
        ("May dogs come in?", "May dogs come in?"),
    ):
        found = evidence("Is it forbidden that dogs come?", Scorer("May dogs come in?", "yes"), text)
        assert texts_of(found.closest())[0] == expected


@pytest.mark.parametrize("title", ["Overview", "Table 2: Fees of dogs", "What do dogs cost?"])
def test_a_caption_or_a_single_word_is_not_quoted(title):
    text = f"{title}\n\nDogs are 5 euros.\n\nCats are free."
    assert (
        texts_of(evidence("What is the overview of dogs?", Scorer(title, "5 euros"), text).closest())[0]
        == "Dogs are 5 euros."
    )


@pytest.mark.parametrize(
    ("question", "lead"),
    [
        ("Can you deliver to Tolsford?", ""),  # the quote says it
        ("Are large dogs allowed?", "No: "),
        ("Are dogs allowed?", ""),  # some are
    ],
)
def test_what_says_yes_or_no_itself_gets_no_other_verdict(question, lead):
    found = evidence(question, Scorer("on Mondays", "Small ones yes"), EMAIL)
    found.confidence = Confidence(0.9, 0.9)
    assert found.lead(found.quoted_answer()) == lead


def test_yes_after_a_question_of_the_document_is_part_of_the_quote():
    found = evidence("Is it possible to deliver it in Tolsford at all?", Scorer("It costs 18 euros"), EMAIL)
    assert texts_of(found.quoted_answer()) == ["Yes, on Mondays.", "It costs 18 euros."]
