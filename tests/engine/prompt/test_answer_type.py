"""What the answer to a question must contain."""

import pytest

from engine.prompt.answer_type import asks_for_reason, expected_content, words_before


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("How much is the deposit?", "1,200 euros", "the landlord"),
        ("How often is it cleaned?", "every week", "by the tenant"),
        ("Wie hoch ist die Kaution?", "drei Monatsmieten", "der Vermieter"),
        ("When does it open?", "on Monday", "the town hall"),
        ("By when do I have to reply?", "as soon as possible", "the secretary"),
        ("On what day is the bin emptied?", "every Sunday", "2 am"),
        ("Bis wann ist das zu melden?", "unverz\u00fcglich", "dem Vorstand"),
        ("What is the e-mail address of the office?", "office@port.example", "Port Arden"),
        ("Wie ist die Telefonnummer?", "0951 17 42 00", "Frau Sühl"),
        ("Who pays?", "the tenant", "12.50"),
    ],
)
def test_the_question_word_tells_what_an_answer_contains(question, right, wrong):
    expected = expected_content(question)
    assert expected.search(right) and not expected.search(wrong)


def test_other_questions_expect_nothing_in_particular():
    assert expected_content("Which colour has it?") is None and words_before("When is it?") is None


@pytest.mark.parametrize(
    ("question", "before"),
    [("Until when is it valid?", "runs until "), ("Seit wann gilt das?", "gilt seit "), ("From when?", "starts on ")],
)
def test_limits_of_time_have_their_preposition(question, before):
    assert words_before(question).search(before) and not words_before(question).search("in ")


def test_reasons_are_recognized():
    assert asks_for_reason("Why was it late?") and asks_for_reason("Warum kam er?") and not asks_for_reason("When?")
