"""Answers from tables: who has the superlative, which rows say yes, yes or no by a row, and amounts with their unit."""

import pytest

from engine.generation.stream import fill_quoted_answer
from engine.generation.verdict import verdict
from engine.prompt.tables.totals import TableRows
from engine.request import Answer, Request, Source
from engine.trace import Trace
from store.markdown import parse_row
from tests.support.evidence import Encoder, Scorer, evidence, texts_of

MEMBERS = """| Name: Ann | Plot: 3 | Rent paid: yes | Key returned: no |
| Name: Bob | Plot: 4 | Rent paid: no | Key returned: no |
| Name: Eve | Plot: 7 | Rent paid: no | Key returned: yes |"""
LAMPS = """## Lamps

We recommend the Lux A.

| Feature: Weight | Lux A: 3 kg | Lux B: 2 kg |
| Feature: Charging time | Lux A: 5 h | Lux B: 330 min |
| Feature: Dimmer | Lux A: yes | Lux B: no |"""


def answer(question, scorer, *passages, encoder=None):
    found = evidence(question, scorer, *passages, encoder=encoder)
    filled = Answer(Request(question), Trace())
    assert fill_quoted_answer(filled, found, lambda texts: [0.0] * len(texts), lambda: "")
    return filled


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which lamp is the lightest?", "Lux B [1]"),
        ("Which lamp has the shortest charging time?", "Feature: Charging time; Lux A: 5 h; Lux B: 330 min [1]"),
    ],
)
def test_a_superlative_is_answered_by_the_table_though_a_sentence_seems_likelier(question, expected):
    assert answer(question, Scorer("Lux A"), LAMPS).text == expected


def test_a_question_that_may_ask_for_a_list_is_answered_by_its_superlative():
    text = "lampen\n\n| Gewicht | Eins: 3 kg | Zwei: 2 kg |\n| Schirm | Eins: rot | Zwei: blau |"
    assert answer("Welche Lampe hat das kleinste Gewicht?", Scorer("rot"), text).text == "Zwei [1]"


def test_the_row_with_the_superlative_answers_both_parts_of_a_question():
    rows = "| Order: 1 | Total: 30 | By: Ann |\n| Order: 2 | Total: 90 | By: Bob |\n| Order: 3 | Total: 60 | By: Eve |"
    found = evidence("Which order had the biggest total, and whose was it?", Scorer("Ann"), rows)
    assert texts_of(found.quoted_answer()) == ["| Order: 2 | Total: 90 | By: Bob |"]


def test_a_table_about_something_else_does_not_decide_a_superlative():
    passages = ("## Boats\n\nThe tug is slow.", "| Feature: Weight | Lux A: 3 kg | Lux B: 2 kg |")
    assert answer("Which tug is the lightest?", Scorer("tug"), *passages).text == "The tug is slow. [1]"


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Who hasn't paid?", ["Bob", "Eve"]),
        ("Who has returned the key?", ["Eve"]),
        ("Which members have not paid the rent?", ["Bob", "Eve"]),
    ],
)
def test_the_names_of_the_rows_that_say_yes_or_no_are_listed(question, names):
    assert texts_of(evidence(question, Scorer("yes"), MEMBERS).quoted_answer()) == names


def test_the_rows_that_say_yes_also_meet_the_other_conditions():
    rows = (
        "| Site: A | City: Rome | Parking: yes |",
        "| Site: B | City: Oslo | Parking: yes |",
        "| Site: C | City: Rome |",
    )
    found = evidence("Which sites in Rome have parking?", Scorer("yes"), "\n".join(rows))
    assert texts_of(found.quoted_answer()) == [rows[0]]


def test_counted_rows_are_quoted_after_their_number():
    rows = "| Plot: 3 | Who: Ann | Rent: paid |\n| Plot: 4 | Who: Bob | Rent: due |\n| Plot: 7 | Who: Eve | Rent: due |"
    question = "How many plots have rent due?"
    found = evidence(question, Scorer("due"), rows)
    assert not found.lead(found.quoted_answer())  # it was not counted in the whole table
    due = [parse_row(row) for row in ("| Plot: 2 | Rent: due |", *rows.split("\n")[1:])]
    found = evidence(question, Scorer("due"), rows, table_rows=TableRows(tuple(due), "3 (Rent: due)"))
    answer = found.quoted_text(found.quoted_answer())
    assert answer == "3 (Rent: due):\nPlot: 4; Who: Bob; Rent: due [1]\nPlot: 7; Who: Eve; Rent: due [1]"
    assert found.has_answer


def test_who_is_meant_is_answered_with_the_names_of_rows():
    rows = "| Name: Ann Osei | Team: IT |\n| Name: Ben | Team: HR |\n| Name: Cem | Team: IT |"
    meant = tuple(parse_row(row) for row in rows.split("\n")[::2])
    found = evidence("Who works in IT?", Scorer("IT"), rows, table_rows=TableRows(meant))
    assert texts_of(found.quoted_answer()) == ["Ann Osei", "Cem"]
    assert found.has_answer
    cars = rows.replace("Name: ", "Car: ")
    found = evidence("Who works in IT?", Scorer("IT"), cars, table_rows=TableRows((parse_row(cars.split("\n")[0]),)))
    assert texts_of(found.quoted_answer()) == ["| Car: Ann Osei | Team: IT |"]


def test_whether_there_are_any_rows_is_answered_with_their_number():
    rows = "| Plot: 3 | Rent: paid |\n| Plot: 4 | Rent: due |\n| Plot: 7 | Rent: due |"
    due = tuple(parse_row(row) for row in rows.split("\n")[1:])
    found = evidence("Are there any plots due?", Scorer("3"), rows, table_rows=TableRows(due, "Yes, 2 (Rent: due)"))
    answer = found.quoted_text(found.quoted_answer())
    assert answer == "Yes, 2 (Rent: due):\nPlot: 4; Rent: due [1]\nPlot: 7; Rent: due [1]"


def test_a_row_of_two_overlapping_passages_is_listed_once():
    first, shared, last = (f"| Plot: {number} | Rent: due |" for number in (3, 4, 7))
    other = "| Plot: 5 | Rent: paid |"
    passages = "\n".join((first, other, shared)), "\n".join((shared, last))
    found = evidence("Which plots have rent due?", Scorer("4"), *passages, documents=("plots", "plots"))
    assert texts_of(found.quoted_answer()) == [first, shared, last]


@pytest.mark.parametrize(("num_rows", "notes"), [(2, ()), (7, ("7 rows of the table are meant; 2 are shown.",))])
def test_a_list_says_if_the_whole_table_has_more_such_rows(num_rows, notes):
    rows = "| Plot: 3 | Rent: paid |\n| Plot: 4 | Rent: due |\n| Plot: 7 | Rent: due |"
    question = "Which plots have rent due?"
    filled = Answer(Request(question), Trace())
    found = evidence(question, Scorer("due"), rows, table_rows=TableRows(num_rows * ([],)))
    assert fill_quoted_answer(filled, found, None, lambda: "")
    assert (filled.text, filled.notes) == ("Plot: 4; Rent: due [1]\nPlot: 7; Rent: due [1]", notes)


@pytest.mark.parametrize(("rank", "newer"), [(1, True), (2, False)])
def test_an_answer_from_an_older_edition_says_so(rank, newer):
    names, question = ("Club rules 2024.md", "Club rules 2026.md"), "Which rule is there for dogs?"
    texts = [f"| Dogs: {'lead' if rank == number else 'none'} | Rule: {number} |" for number in (1, 2)]
    filled = Answer(Request(question), Trace())
    filled.sources = tuple(Source(i, name, name, None, None, True, 9, "none", 0, ()) for i, name in enumerate(names, 1))
    found = evidence(question, Scorer("lead"), *texts, documents=names)
    assert fill_quoted_answer(filled, found, lambda texts: [0.0] * len(texts), lambda: "")
    note = "Club rules 2024.md is an older edition: Club rules 2026.md is newer."
    assert [quote.rank for quote in filled.quotes] == [rank] and filled.notes == ((note,) if newer else ())


def test_rows_are_not_listed_for_a_question_about_one_of_them_or_that_asks_for_no_name():
    for question in ("Who has paid the rent for plot 4?", "When is the rent paid?"):
        assert evidence(question, Scorer("yes"), MEMBERS).quoted_answer() == []


@pytest.mark.parametrize(
    ("question", "row", "expected"),
    [
        ("Has Bob paid his rent?", "| Name: Bob | Rent paid: no | Key returned: yes |", "No"),
        ("Hasn't Bob paid his rent?", "| Name: Bob | Rent paid: no | Key returned: yes |", "Yes"),
        ("Has Bob returned the key?", "| Name: Bob | Rent paid: no | Key returned: yes |", "Yes"),
        ("Is there a dimmer in the Lux B?", "| Dimmer | Lux A: yes | Lux B: no |", "No"),
        ("Hat der Lux A einen Dimmer?", "| Dimmer | Lux A: ja | Lux B: nein |", "Ja"),
        ("Has Ann paid her rent?", "| Name: Bob | Rent paid: no |", ""),  # another row
        ("Has Bob paid?", "| Name: Bob | Rent paid: no | Deposit paid: yes |", ""),  # which of the two?
        ("Has Bob paid his rent?", "| Name: Bob | Rent paid: in part |", ""),
        ("Is the surgery open on Saturday?", "Saturday: by appointment", ""),
    ],
)
def test_a_row_decides_if_it_says_yes_or_no_in_the_column_that_is_asked_about(question, row, expected):
    assert verdict(question, [row]) == expected


def test_several_rows_decide_nothing():
    assert verdict("Has Bob paid his rent?", ["| Name: Bob | Rent paid: no |", "| Name: Ann | Rent paid: no |"]) == ""


def test_an_amount_is_the_cell_with_a_currency_and_its_unit():
    row = "| Date: 12.01.2025 | Payee: Roofer Holm | Amount (\u20ac): 318.4 |"
    for question in ("How much did we spend on the roofer in 2025?", "Wie viel haben wir dem Roofer 2025 gezahlt?"):
        assert answer(question, Scorer("12.01.2025", "318.4"), row).text == "\u20ac318.4 [1]"


def test_a_comparison_skips_a_sentence_that_is_the_same_in_both():
    old = "## Rent\n\nRent is due in May. Rent of a plot is 48 euros."
    new = "## Rent\n\nRent is due in May. Rent of a plot is 57 euros."
    find = Scorer("due in May"), old, new
    differing = evidence("How did the rent differ?", *find, encoder=Encoder("due", "plot")).quoted_answer()
    assert texts_of(differing) == ["Rent of a plot is 48 euros.", "Rent of a plot is 57 euros."]
    asked = evidence("Has the rent due changed?", *find, encoder=Encoder("due", "plot")).quoted_answer()
    assert texts_of(asked) == ["Rent is due in May.", "Rent is due in May."]
