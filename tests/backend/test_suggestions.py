"""Questions come from a document's own questions and headings, and whatever is in a text, they stay short sentences."""

import time
import unicodedata
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets import ASSETS
from backend.services.suggestions import MAX_NAME_CHARS, MAX_PASSAGES, MAX_QUESTIONS, suggest_questions
from engine.prompt.named_documents import TOPIC
from engine.prompt.titles import is_title_of, topic_words

LEASE = """# Lease of Mill Lane 12

Between Anna Berg and Tom Hale.

## Introduction

This is the lease.

## 2. Termination and notice

Three months.

## Can I keep pets?

Cats only.

Table 3: Rent by year

| Year: 2025 | Rent: 940 |

## Signatures of both

## Page 4

Berg, Hale
"""


def test_questions_of_the_text_come_first_then_headings_and_captions():
    assert suggest_questions("lease.pdf", [LEASE, LEASE]) == [
        "Can I keep pets?",
        "What does lease.pdf say about Termination and notice?",
        "What does lease.pdf say about Rent by year?",
    ]


def test_questions_of_the_sample_documents():
    faq, handbook = (ASSETS / "samples" / name for name in ("faq.txt", "harbour-handbook.md"))
    questions = suggest_questions("faq.txt", [faq.read_text()])
    assert questions[:2] == ["Where do the ferries leave from?", "How long does the crossing take?"]
    assert len(questions) == MAX_QUESTIONS
    questions = suggest_questions("Harbour Line.md", [handbook.read_text()])
    assert questions[0] == "What does Harbour Line.md say about the company?"
    report = "Report\n\n## 1. What passengers told us\n\nThe crews received the best marks."
    assert suggest_questions("a.md", [report]) == ["What does a.md say about what passengers told us?"]


def test_the_first_line_is_the_title_unless_it_is_a_lower_heading():
    text = "## Who can join us here?\n\nAll.\n\n## Fees of members\n\nNone."
    about_fees = "What does a.md say about Fees of members?"
    assert suggest_questions("a.md", [text]) == ["Who can join us here?", about_fees]
    assert suggest_questions("a.md", ["## Rules of the club\n\nSome.\n"]) == [
        "What does a.md say about Rules of the club?"
    ]
    assert suggest_questions("a.md", ["# Rules of the club\n\nSome.\n"]) == []


@pytest.mark.parametrize(
    "line", ["## 2.1 About our fees", "## **The rules** of it ##", "## 3 months of notice", "## \u00a7 4 Rent: a list:"]
)
def test_the_heading_is_found_by_its_suggested_question(line):
    (question,) = suggest_questions("a.md", [f"# Lease\n\n{line}\n\nText.\n"])
    match = TOPIC.match(question)
    assert match and is_title_of(line, topic_words(match["topic"]))


def test_questions_about_a_german_text_are_german():
    text = (
        "# Mietvertrag\n\n## Die Kosten der Wohnung\n\nDie Mieter zahlen mit einer Frist von drei Tagen und das in der "
        "Form, die auch die Vermieter und das Ende des Vertrags an sich haben. Es ist nicht ein Grund zu nennen.\n"
    )
    assert suggest_questions("miete.pdf", [text]) == ["Was steht in miete.pdf \u00fcber Kosten der Wohnung?"]


@pytest.mark.parametrize(
    "line",
    [
        "# Contents",
        "# Table of contents",
        "# Introduction",
        "# Appendix B: forms and tables",
        "# Page 12 of 80",
        "# 12.3",
        "# 3 - 4",
        "# ##",
        "    # of lines in a program",
        "# my report",  # the document's name
        "# Notice",  # one word
        "# One two three four five six seven eight nine",
        "# <img src=x onerror=alert(1)> of the lease",
        "# [Terms of use](https://example.org)",
        "# Who we are, and when we began",  # would be answered as two questions
        "## " + "endless " * 40_000,
        "What about it?",  # cannot be understood alone
        "Why? Because it is so, or is it not?",
        "and the tenants, who pays for the repairs of the roof?",
        "Really?",
    ],
)
def test_other_lines_are_no_questions(line):
    assert suggest_questions("my report.pdf", [f"First line.\n\n# Title one\n\n{line}\n\nText below it.\n"]) in (
        [],
        ["What does my report.pdf say about Title one?"],
    )


def test_a_line_within_a_paragraph_and_a_list_of_questions_without_answers_are_no_suggestions():
    assert suggest_questions("a.txt", ["The tenant asks\nMay I keep two cats?\nand the landlord agrees."]) == []
    assert suggest_questions("a.txt", ["1. What does the ferry cost?\n2. Where does the ferry leave?\n"]) == []


def test_invisible_characters_are_removed_and_long_names_cut():
    heading = "## Notice\u202e and\u200b\x07 rent\u2066 of the flat ##"
    (question,) = suggest_questions(f"{'n' * 100}.pdf", [f"Lease\n\n{heading}\n\nText"])
    assert question == f"What does {'n' * (MAX_NAME_CHARS - 1)}\u2026 say about Notice and rent of the flat?"


@given(st.lists(st.text(st.sampled_from("#1.QA:?ab Zé\n|-*_ \u202e\u2066\x00<>"), max_size=300), max_size=4))
def test_any_text_gives_few_short_printable_questions(texts):
    questions = suggest_questions("a.txt", texts)
    assert len(questions) <= MAX_QUESTIONS and len(set(questions)) == len(questions)
    for question in questions:
        assert len(question) < 200 and question.endswith("?")
        assert not {"Cc", "Cf"} & set(map(unicodedata.category, question))


def test_hostile_lines_take_little_time():
    texts = ["# " + "1." * 80 + "\n" + "Q: " * 50 + "\n" + "(a) " * 35 + "?\n"] * MAX_PASSAGES
    started = time.process_time()
    suggest_questions("a.txt", texts)
    assert time.process_time() - started < 5


def test_documents_are_read_once_and_suggest_in_turn_until_they_are_deleted(start, tmp_path, monkeypatch):
    backend = start()
    for name in ("a.md", "b.md"):
        topics = "".join(f"## Notice {word} {name}\n\nText of {name}.\n\n" for word in ("before", "after"))
        (tmp_path / name).write_text(f"Title of {name}\n\n{topics}")
        list(backend.ingest([(tmp_path / name, name)], Event()))
    newest, oldest = backend.documents()
    ids = [newest.id, "unknown", oldest.id]
    questions = backend.library.suggested_questions(ids, 3)
    assert questions == [
        "What does b.md say about Notice before b.md?",
        "What does a.md say about Notice before a.md?",
        "What does b.md say about Notice after b.md?",
    ]
    with monkeypatch.context() as patch:
        patch.setattr("backend.services.library.suggest_questions", lambda *_: pytest.fail("read again"))
        assert backend.library.suggested_questions(ids, 3) == questions
    backend.library.rename(newest.id, "c.md")
    assert "c.md" in backend.library.suggested_questions(ids, 1)[0]
    backend.delete(newest.id)
    assert all("a.md" in question for question in backend.library.suggested_questions(ids, 3))
    backend.close()
    assert backend.library.suggested_questions(ids, 3) == []
