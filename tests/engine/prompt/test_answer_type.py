"""What the answer to a question must contain."""

import pytest

from engine.prompt.answer_type import asks_for_more, asks_for_reason, expected_content, words_before


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
        ("What interest rate is charged on late rent?", "8 % a year", "Interest; 2024: 286"),
        ("Who pays?", "the tenant", "12.50"),
        ("Who pays?", "by Ida Wren", "as agreed in the lease"),
        ("Who pays?", "every member", "The fee is due."),
        ("Wer zahlt?", "der Vermieter", "04632 7718 entgegen"),
        ("How much did we spend on it?", "about 30 euros", "on 3 May"),
        ("Wie viel haben wir dem Maler gezahlt?", "1240 Euro", "am 3. Mai"),
        ("How long was the berth closed?", "nineteen days", "on 27 October"),
        ("Wie lange gilt es?", "bis zum Jahresende", "seit 2020"),
        ("How much does a pass cost?", "36 euros", "36 keys"),
        ("What would a new one set me back?", "36 euros", "36 keys"),
        ("What do I have to pay?", "36 euros", "36 keys"),
        ("Was hat die Pflege 2024 gekostet?", "36 Euro", "das Jahr 2024"),
        ("What is the order number of the filter?", "88-4120", "the filter"),
        ("number of our travel insurance policy pls", "policy TG-20", "the policy"),
        ("When is the dividend paid?", "26 July 2024", "6.2 pence (2023: 5.8 pence)"),
    ],
)
def test_the_question_word_tells_what_an_answer_contains(question, right, wrong):
    expected = expected_content(question)
    assert expected.is_in(right) and not expected.is_in(wrong)


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("How long does it charge?", "| Charging time: 95 min | Model: A |", "| Berths: 2 | Port: Orton |"),
        ("How long does it charge?", "| Charging time (min): 95 |", "| Part: 95 |"),
        ("What does it cost?", "| Fee: 12 |", "| Fee: on request |"),
        ("When is it due?", "| Due: 3 May | Year: 4 |", "| 2023: 5.5 | 2024: 6.2 |"),
    ],
)
def test_a_row_has_its_answer_in_a_value_and_the_unit_may_be_in_its_header(question, right, wrong):
    expected = expected_content(question)
    assert expected.is_in(right) and not expected.is_in(wrong)


def test_other_questions_expect_nothing_in_particular():
    assert expected_content("Which colour has it?") is None and words_before("When is it?") is None


@pytest.mark.parametrize(
    ("question", "before"),
    [("Until when is it valid?", "runs until "), ("Seit wann gilt das?", "gilt seit "), ("From when?", "starts on ")],
)
def test_limits_of_time_have_their_preposition(question, before):
    assert words_before(question).search(before) and not words_before(question).search("in ")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What does E21 mean, and can I still use it?", True),
        ("What does E21 mean and what do I do?", True),
        ("Why was it late?", True),
        ("Who pays, and until when?", True),
        ("What do bottle and can deposits cost?", False),
        ("What happens in April and May?", False),
    ],
)
def test_a_second_request_needs_more_than_a_name_or_number(question, expected):
    assert asks_for_more(question) is expected


def test_reasons_are_recognized():
    assert asks_for_reason("Why was it late?") and asks_for_reason("Warum kam er?") and not asks_for_reason("When?")
