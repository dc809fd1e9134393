"""Which questions are follow-ups, and how much history is put in front of them."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.prompt.followups import (
    MAX_HISTORY_TOKENS,
    naming_rows,
    needs_context,
    relative_year,
    relevant_turns,
    with_history,
)
from engine.prompt.template import NO_ANSWER, PromptTemplate
from engine.request import ChatTurn, Request
from tests.support import tiny

PROMPT = PromptTemplate(tiny.tokenizer())
SAMPLES = json.loads((Path(__file__).parents[2] / "support" / "data" / "sample_questions.json").read_text())
BOAT = ChatTurn("Which boat sails the Bay Route?", "Old Kestrel [1]", ("a-0", "a-1"))
BUILT = ChatTurn("When was it built?", "It was built in 1987. [2]")
TICKET = ChatTurn("How much does an adult ticket cost?", "14 pounds.")


@pytest.mark.parametrize(
    "question",
    [
        "How loud is the washer when it spins?",
        "Was passiert mit der Kaution, wenn er auszieht?",
        *(sample["question"] for sample in SAMPLES),
        "Who won the race?",
        "Who is Don Quixote?",
        "What do I have to do when leaving?",
    ],
)
def test_standalone_questions(question):
    assert not needs_context(question)


@pytest.mark.parametrize(
    "question",
    [
        "Who pays if it breaks?",
        "Does it stop when they leave the building?",
        "How loud is the washer when it dries them?",
        "Who commands it?",
        "How many passengers does it carry?",
        "And the captain?",
        "What about the Old Kestrel?",
        "Und wie hoch ist die Kaution?",
        "Was ist mit dem Keller?",
        "Wie lange wird davon gezahlt?",
        "WHY?",
        "How much?",
        "In which year?",
        "What is their address?",
        "What's the price?",
        "Who\u2019s the captain?",
        "Why isn't that so?",
        "Why won\u2019t he?",
        "Can't you say how?",
        "Were they hurt?",
        "Which others are there?",
        "  and on the South Route?",
        "",
        "?!",
    ],
)
def test_follow_ups(question):
    assert needs_context(question)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("I can't find my library card any more, what will it cost me?", False),
        ("We chipped a skylight. Who hears about it and how fast?", False),
        ("Mein Toaster ist kaputt. Nimmt ihn der Elektromarkt auch?", False),
        ("Is there parking for visitors near pier 3?", False),
        ("Who does it for someone else?", True),
        ("Is there a fee?", True),
        ("How many people from the old site decided against moving there?", True),
        ("Can she pay it, or does he have to?", True),
        ("What will it cost me, and when?", True),
        ("Thanks for the quick answer. And what does it cost?", True),
        ("OK great, how long does it take?", True),
        ("For a family of four, how much is it?", True),
        ("Does the same rule apply to dogs?", True),
        ("How much do the other tickets cost for children?", True),
    ],
)
def test_a_pronoun_of_what_the_question_names_itself_needs_no_earlier_turn(question, expected):
    assert needs_context(question) is expected


@pytest.mark.parametrize("question", ["Andrew Hill leads which crew?", "Is Items Ltd. a customer of Itself GmbH?"])
def test_anaphors_are_whole_words(question):
    assert needs_context(question) is ("itself" in question.lower())


@given(st.text(max_size=80))
def test_any_text_is_accepted(question):
    assert needs_context(question) in (True, False)


@pytest.mark.parametrize(
    "question, earlier, expected",
    [
        ("Who commands it?", [], []),
        ("Who commands it?", [BOAT], [BOAT]),
        ("And who commands it?", [TICKET, BOAT, BUILT], [BOAT, BUILT]),
        ("And who commands it?", [BUILT, BUILT], [BUILT, BUILT]),
        ("Which form do staff use to swap a shift?", [BOAT, BUILT], []),
    ],
)
def test_history_starts_at_the_last_standalone_question(question, earlier, expected):
    assert relevant_turns(question, earlier) == tuple(expected)


def test_history_precedes_the_question_without_citation_marks():
    contextual = with_history(PROMPT, Request("And who commands it? ", history=(TICKET, BOAT, BUILT)))
    assert contextual.text == (
        "Which boat sails the Bay Route? Old Kestrel. When was it built? It was built in 1987. And who commands it?"
    )
    assert contextual.ids == PROMPT.suffix_ids(contextual.text) and contextual.notes == ()


@pytest.mark.parametrize("earlier", [(), (BOAT,), (BOAT, BUILT)])
def test_standalone_question_gets_no_history(earlier):
    question = "Which form do staff use to swap a shift?"
    contextual = with_history(PROMPT, Request(question, history=earlier))
    assert (contextual.text, contextual.ids, contextual.notes) == (question, PROMPT.suffix_ids(question), ())


def test_no_answer_sentence_is_left_out_of_the_history():
    contextual = with_history(PROMPT, Request("Why?", history=(ChatTurn("Who owns it?", f"{NO_ANSWER} [1]"),)))
    assert contextual.text == "Who owns it? Why?" and contextual.notes == ()


LONG = "The answer goes on about boats and ports and much else. " * 30


def test_turn_with_a_long_answer_keeps_its_question_with_a_note():
    contextual = with_history(PROMPT, Request("Why?", history=(BOAT, ChatTurn("Who owns it?", LONG))))
    assert contextual.text.endswith("Who owns it? Why?") and "goes on" not in contextual.text
    assert contextual.text.startswith(BOAT.question)  # there was room for the one before
    assert "newest first" in contextual.notes[0]


questions = st.sampled_from(["", "Who?", "Is it?", BOAT.question, LONG[:400].strip() + ".", LONG.strip()])
answers = st.sampled_from(["", "Yes. [1]", "It is [2].", LONG[:400].strip() + ".", LONG.strip()])


@given(st.lists(st.builds(ChatTurn, questions, answers), max_size=6))
@settings(deadline=None)
def test_history_keeps_to_its_budget_and_a_cut_gives_a_note(earlier):
    contextual = with_history(PROMPT, Request("And why?", history=tuple(earlier)))
    before = len(PROMPT.tokenizer.encode(contextual.text.removesuffix("And why?")).ids)
    assert before <= MAX_HISTORY_TOKENS + len(earlier)  # and a blank between two
    said = [
        text
        for each in relevant_turns("And why?", earlier)
        for text in (each.question, re.sub(r" \[\d\]", "", each.answer))
    ]
    assert bool(contextual.notes) == (contextual.text.split() != " ".join([*said, "And why?"]).split())


@pytest.mark.parametrize(
    ("question", "year"),
    [
        ("How much was it in 2023? 5. and the year before?", "2022"),
        ("Wie viel war es 2023? 5. Und im Jahr davor?", "2022"),
        ("How much in 2022 and 2023? And the following year?", "2024"),
        ("How much was it in 2023?", ""),
        ("And the year before?", ""),
    ],
)
def test_a_relative_year_follows_the_last_one_named(question, year):
    assert relative_year(question) == year


@pytest.mark.parametrize(
    ("earlier", "question", "expected"),
    [
        (
            ["Which invoices are over 500 euros?"],
            "How many of those are paid?",
            "of the invoices are over 500 euros are paid",
        ),
        (["List the Osei invoices"], "And what do they add up to?", "what do Osei invoices add up to"),
        (
            ["Show me all invoices of May.", "Which of them are open?"],
            "How much are those in total?",
            "How much are invoices of May are open in total?",
        ),
        (
            ["Welche Rechnungen sind offen?"],
            "Wie viele davon sind von Osei?",
            "Wie viele Rechnungen sind offen sind von Osei",
        ),
        (["Which invoices are open?"], "Which orders are open?", "Which orders are open?"),  # it stands alone
        (["Which rooms are heated?"], "How many of those rooms are there?", "How many of those rooms"),
        ([], "How many of those are paid?", "How many of those are paid?"),
    ],
)
def test_a_question_about_rows_found_before_has_the_words_that_found_them(earlier, question, expected):
    assert expected in naming_rows(question, [ChatTurn(text, "") for text in earlier])


def test_a_question_about_rows_after_one_that_names_none_has_no_words():
    assert naming_rows("How many of those are paid?", [ChatTurn("Is the office open on Sundays?", "")]) == ""
