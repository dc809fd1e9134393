"""Lists, steps and table rows that are quoted as answers."""

import pytest

from engine.generation.confidence import Confidence
from engine.generation.evidence import Evidence
from tests.support.evidence import MANUAL, OTHER, Encoder, Scorer, evidence, texts_of


def test_rows_with_the_value_that_the_question_names_are_listed():
    rows = [f"| Course: {course} | Day: {day} |" for course, day in zip("ABCD", ("Monday", "Friday") * 2, strict=True)]
    found = evidence("What courses are on Fridays?", Scorer("B"), "\n".join(rows))
    assert texts_of(found.quoted_answer()) == [rows[1], rows[3]]


def test_all_rows_are_listed_if_the_question_asks_for_the_first_column():
    rows = [f"| Plant: {plant} | Furnaces: {count} |" for plant, count in zip("ABC", (1, 1, 3), strict=True)]
    found = evidence("Name all the plants.", Scorer("3"), "\n".join(rows))
    assert texts_of(found.quoted_answer()) == rows


def test_a_list_that_the_best_sentence_announces_is_the_answer():
    text = "The board named these dangers:\n\n- Fire\n- Flood"
    assert texts_of(evidence("Which dangers did the board see?", Scorer("dangers"), text).quoted_answer()) == [
        "- Fire\n- Flood"
    ]


@pytest.mark.parametrize("part", ["Rinse", "Clean the pump"])
def test_steps_are_quoted_to_their_end_also_if_the_line_above_them_was_found(part):
    quotes = evidence("How do I clean it?", Scorer(part), MANUAL).quoted_answer()
    assert texts_of(quotes) == ["1. Switch it off.\n2. Rinse the sieve."]


def test_a_list_question_without_a_list_gets_the_sentence():
    assert texts_of(evidence("List the colours.", Scorer("blue"), OTHER).quoted_answer()) == ["It is blue."]


def test_steps_below_a_paragraph_are_the_answer_though_the_paragraph_is_likelier():
    text = "## Reset\n\nA reset deletes the map. You need the PIN.\n\n1. Press STOP.\n2. Enter the PIN."
    found = evidence("How do I reset it?", Scorer("A reset deletes the map"), text)
    assert texts_of(found.quoted_answer()) == ["1. Press STOP.\n2. Enter the PIN."]


def test_a_short_paragraph_may_be_the_procedure_and_a_numbered_clause_is_no_list():
    text = "## Winter\n\n2.1 Charge it at 5 °C. Store it dry.\n\n## Cleaning\n\n1. Wipe it.\n2. Dry it."
    found = evidence("What do I do before winter?", Scorer("Charge it"), text, encoder=Encoder("inter"))
    assert texts_of(found.quoted_answer()) == ["2.1 Charge it at 5 °C. Store it dry."]


def test_a_list_below_a_heading_that_the_question_names_wins():
    text = "## Staff\n\n- Ann\n- Ben\n\n## Top risks\n\n- Frost\n- Theft"
    assert texts_of(evidence("top risks of the project?", Scorer("Ann", "Frost"), text).quoted_answer()) == [
        "- Frost\n- Theft"
    ]


@pytest.mark.parametrize(
    ("sentence", "wins"), [("The halls are Alder, Birch and Cedar.", True), ("The halls are in Port Arden.", False)]
)
def test_a_sentence_that_enumerates_can_answer_instead_of_a_list(sentence, wins):
    text = f"{sentence}\n\n## Tours\n\n- Monday\n- Friday"
    found = evidence("What are the names of the halls?", Scorer("The halls are"), text)
    assert texts_of(found.quoted_answer()) == [sentence if wins else "- Monday\n- Friday"]


def test_a_sentence_that_enumerates_does_not_replace_a_much_better_one():
    hours = "Service line: 0800 555 0143, Saturday 9 am to 1 pm."
    text = f"{hours}\n\n## Work\n\nOur hours are from 7 am to 8 pm, 10 am to 3 pm and 10 am to 1 pm."
    found = evidence("What are the hours of the service line on Saturday?", Scorer("9 am"), text)
    assert texts_of(found.quoted_answer()) == [hours]


def test_a_sentence_that_enumerates_answers_if_the_only_list_is_about_something_else():
    sentence = "Phones, bicycles and skis are not covered at all."
    text = f"## Luggage\n\nBags are covered. {sentence}\n\n## Trips\n\n- a storm\n- a strike"
    found = evidence("Which bags are never covered?", Scorer("Bags", "Phones"), text, encoder=Encoder("covered"))
    assert texts_of(found.quoted_answer()) == [sentence]


@pytest.mark.parametrize(("confidence", "answer"), [(0.9, "Leave thirty pounds for the key."), (0.4, "- tea\n- milk")])
def test_a_list_of_another_document_does_not_replace_a_quote_that_is_sure(monkeypatch, confidence, answer):
    monkeypatch.setattr(Evidence, "confidence", Confidence(confidence, 1.0))
    passages = "Leave thirty pounds for the key.", "## Kitchen\n\n- tea\n- milk"
    found = evidence("What do I have to leave for the key?", Scorer("thirty pounds"), *passages)
    assert texts_of(found.quoted_answer()) == [answer]


def test_the_rows_of_a_table_that_lists_what_is_asked_for_are_found_though_another_row_is_likelier():
    plants = "| Plant: Dunmore | Built: 1994 |\n| Plant: Orton | Built: 2002 |"
    text = f"| Glass sold: 58 t | Share: 4 % |\n\n{plants}"
    assert texts_of(evidence("Name all the plants.", Scorer("58"), text).quoted_answer()) == plants.split("\n")


def test_the_answers_of_an_faq_are_no_steps():
    faq = "- Can she join?: We teach from the age of six.\n- How do I leave?: Send a letter."
    text = f"## Questions\n\n{faq}\n\n## Joining\n\n(1) Fill in the form.\n\n(2) Send it to the office."
    found = evidence("How do I sign up my son?", Scorer("join", "leave"), text)
    assert texts_of(found.quoted_answer()) == ["(1) Fill in the form.\n\n(2) Send it to the office."]


@pytest.mark.parametrize("question", ["What is not covered?", "Which things are excluded?"])
def test_what_is_not_covered_is_the_list_or_sentence_that_says_so(question):
    covered = "## What is insured\n\n- covered: fire\n- covered: hail"
    text = f"{covered}\n\n## Exclusions\n\nNot insured are:\n\n- war\n- pets"
    assert texts_of(evidence(question, Scorer("fire", "war"), text).quoted_answer()) == ["- war\n- pets"]
    sentence = "The warranty does not cover damage by limescale; seals; and repairs by others."
    text = f"{sentence} A repair outside the warranty costs 89, 109 or 139 pounds."
    assert texts_of(evidence(question, Scorer("limescale", "139"), text).quoted_answer()) == [sentence]


def test_a_row_that_only_says_where_the_steps_are_does_not_replace_them():
    steps = "1. Turn the screw clockwise.\n2. Wait for shavings."
    text = f"| Fault: not cut | Remedy: Adjust the plate, see chapter 6 |\n\n## 6. Plate\n\n{steps}"
    found = evidence("How do I adjust the plate?", Scorer("Adjust the plate"), text, encoder=Encoder("plate"))
    assert texts_of(found.quoted_answer()) == [steps]


@pytest.mark.parametrize(
    "row", ["| Automatic cleaning of the pump | A: no | B: yes |", "| Pump | A: 3 | Price: 9 euros |"]
)
def test_a_row_without_an_instruction_does_not_replace_steps(row):
    steps = "1. Switch it off.\n2. Rinse the pump."
    text = f"{row}\n\n## Cleaning the pump\n\n{steps}"
    assert texts_of(evidence("How do I clean the pump?", Scorer("pump"), text).quoted_answer()) == [steps]


def test_sentences_that_a_quote_counts_are_the_list():
    counted = "The study has two small limits. The sample was small. Only water was used."
    for text, expected in ((f"{counted} It was fun.", counted), ("The study has two limits.", None)):
        found = evidence("Which limits does the study have?", Scorer("limits"), text).quoted_answer()
        assert texts_of(found) == [expected or text]
    found = evidence("How many limits does the study have?", Scorer("two"), counted)
    assert found.quoted_answer() == []  # a fact


RECOMMENDED = "The report is short.\n\nWe recommend:\n\n- to plant trees\n- to keep cattle away\n- to buy a gauge"


def test_a_list_answers_a_question_that_asks_for_none_if_several_of_its_items_are_likely():
    scorer = Scorer("plant trees", "keep cattle away")
    (quote,) = evidence("What does the report recommend?", scorer, RECOMMENDED).quoted_answer()
    assert quote.text == "- to plant trees\n- to keep cattle away\n- to buy a gauge"
    assert evidence("When does the report recommend that?", scorer, RECOMMENDED).quoted_answer() == []
    assert evidence("What is the report?", Scorer("short"), RECOMMENDED).quoted_answer() == []


ROOMS = "\n".join(
    f"| Item: {item} | Type: {name} | Hotel: {hotel} |"
    for item, name, hotel in [
        ("1", "washer", "Marine Parade"),
        ("2", "dryer", "Marine Parade"),
        ("3", "iron", "Gull Rock"),
    ]
)


def test_rows_that_share_a_named_value_are_listed_even_if_other_words_are_not_understood():
    found = evidence("Which leased machines are standing at the Marine Parade?", Scorer("dryer"), ROOMS)
    assert texts_of(found.quoted_answer()) == ROOMS.split("\n")[:2]


@pytest.mark.parametrize(
    "question",
    [
        "Which leased machines are not standing at the Marine Parade?",
        "Which leased machines are standing outside the Marine Parade?",
        "Which leased machines are standing in all hotels but the Marine Parade?",
        "Which leased machines were standing at the Marine Parade before March?",
    ],
)
def test_rows_with_a_value_are_not_listed_if_they_may_be_excluded(question):
    assert len(texts_of(evidence(question, Scorer("dryer"), ROOMS).quoted_answer())) == 1


def test_steps_numbered_within_a_paragraph_come_before_other_paragraphs():
    steps = "6.1 Filter. 1. Take out the basket. 2. Turn the filter. 3. Rinse the filter well. It locks again."
    text = f"## Care\n\n{steps}\n\n## Faults\n\nYou clean the filter often. The filter must be clean."
    found = evidence("How do I clean the filter?", Scorer("nothing of this"), text)
    assert texts_of(found.quoted_answer()) == [steps]
