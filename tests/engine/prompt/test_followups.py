"""Which questions lean on earlier ones, and how much of those stands in front of them."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.prompt.followups import RECALLED_TOKENS, needs_context, relevant_turns, with_history
from engine.prompt.template import NO_ANSWER, Prompt
from engine.request import ChatTurn, Request
from tests.support import tiny

PROMPT = Prompt(tiny.tokenizer())
SAMPLES = json.loads((Path(__file__).parents[2] / "support" / "sample_questions.json").read_text())
BOAT = ChatTurn("Which boat sails the Bay Route?", "Old Kestrel [1]", ("a-0", "a-1"))
BUILT = ChatTurn("When was it built?", "It was built in 1987. [2]")
TICKET = ChatTurn("How much does an adult ticket cost?", "14 pounds.")


@pytest.mark.parametrize(
    "question", [*(sample["question"] for sample in SAMPLES), "Who won the race?", "Who is Don Quixote?"]
)
def test_a_question_that_says_what_it_is_about_stands_by_itself(question):
    assert not needs_context(question)


@pytest.mark.parametrize(
    "question",
    [
        "Who commands it?",
        "How many passengers does it carry?",
        "And the captain?",
        "What about the Old Kestrel?",
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
def test_a_question_that_points_back_goes_on_or_says_little_leans(question):
    assert needs_context(question)


@pytest.mark.parametrize("question", ["Andrew Hill leads which crew?", "Is Items Ltd. a customer of Itself GmbH?"])
def test_only_whole_words_point_back(question):
    assert needs_context(question) is ("itself" in question.lower())


@given(st.text(max_size=80))
def test_any_text_leans_or_does_not(question):
    assert needs_context(question) in (True, False)


@pytest.mark.parametrize(
    "question, earlier, leaned_on",
    [
        ("Who commands it?", [], []),
        ("Who commands it?", [BOAT], [BOAT]),
        ("And who commands it?", [TICKET, BOAT, BUILT], [BOAT, BUILT]),
        ("And who commands it?", [BUILT, BUILT], [BUILT, BUILT]),
        ("Which form do staff use to swap a shift?", [BOAT, BUILT], []),
    ],
)
def test_a_thread_reaches_back_to_the_last_question_that_stood_by_itself(question, earlier, leaned_on):
    assert relevant_turns(question, earlier) == tuple(leaned_on)


def test_what_is_recalled_stands_in_front_of_the_question_without_marks_of_citations():
    asked = with_history(PROMPT, Request("And who commands it? ", earlier=(TICKET, BOAT, BUILT)))
    assert asked.text == (
        "Which boat sails the Bay Route? Old Kestrel. When was it built? It was built in 1987. And who commands it?"
    )
    assert asked.ids == PROMPT.question(asked.text) and asked.notes == ()


@pytest.mark.parametrize("earlier", [(), (BOAT,), (BOAT, BUILT)])
def test_a_question_of_its_own_is_asked_as_if_it_were_the_first(earlier):
    question = "Which form do staff use to swap a shift?"
    asked = with_history(PROMPT, Request(question, earlier=earlier))
    assert (asked.text, asked.ids, asked.notes) == (question, PROMPT.question(question), ())


def test_an_answer_that_the_passages_do_not_say_is_not_recalled():
    asked = with_history(PROMPT, Request("Why?", earlier=(ChatTurn("Who owns it?", f"{NO_ANSWER} [1]"),)))
    assert asked.text == "Who owns it? Why?" and asked.notes == ()


LONG = "The answer goes on about boats and ports and much else. " * 30


def test_an_answer_too_long_to_recall_leaves_its_question_and_a_note():
    asked = with_history(PROMPT, Request("Why?", earlier=(BOAT, ChatTurn("Who owns it?", LONG))))
    assert asked.text.endswith("Who owns it? Why?") and "goes on" not in asked.text
    assert asked.text.startswith(BOAT.question)  # there was room for the one before
    assert "newest first" in asked.notes[0]


questions = st.sampled_from(["", "Who?", "Is it?", BOAT.question, LONG[:400].strip() + ".", LONG.strip()])
answers = st.sampled_from(["", "Yes. [1]", "It is [2].", LONG[:400].strip() + ".", LONG.strip()])


@given(st.lists(st.builds(ChatTurn, questions, answers), max_size=6))
@settings(deadline=None)
def test_what_is_recalled_keeps_to_its_budget_and_a_cut_is_said(earlier):
    asked = with_history(PROMPT, Request("And why?", earlier=tuple(earlier)))
    before = len(PROMPT.tokens.encode(asked.text.removesuffix("And why?")).ids)
    assert before <= RECALLED_TOKENS + len(earlier)  # and a blank between two
    said = [
        text
        for each in relevant_turns("And why?", earlier)
        for text in (each.question, re.sub(r" \[\d\]", "", each.answer))
    ]
    assert bool(asked.notes) == (asked.text.split() != " ".join([*said, "And why?"]).split())
