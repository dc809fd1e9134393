"""Rules for questions about tables, against what a reader would point at."""

import math

import pytest

from engine.prompt.table_questions import (
    codes,
    is_in_range,
    limits,
    listed_rows,
    read_number,
    requested_header,
    said_rows,
)

SITES = [
    [("Site", "Harrow"), ("Electricity (MWh)", "2,140"), ("Staff", "12"), ("Parking", "yes")],
    [("Site", "Stainby"), ("Electricity (MWh)", "860"), ("Staff", "31"), ("Parking", "no")],
    [("Site", "Orton"), ("Electricity (MWh)", "1,005.5"), ("Staff", "7"), ("Parking", "yes")],
    [("Site", "Total"), ("Electricity (MWh)", "4,005.5"), ("Staff", "50"), ("Parking", "")],
]


def test_codes_are_letters_or_hyphens_with_digits():
    assert codes("Is TU-3102 or 450-0208 or F04 meant in 2024, for 30 well-known men?") == {
        "tu-3102",
        "450-0208",
        "f04",
    }


@pytest.mark.parametrize(
    ("digits", "value"),
    [("1,250", 1250), ("1.250", 1250), ("3,50", 3.5), ("3.5", 3.5), ("1.250,75", 1250.75), ("0.875", 0.875), ("7", 7)],
)
def test_numbers_are_read_with_english_and_german_separators(digits, value):
    assert read_number(digits) == value


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("24 bis 48 Stunden vorher", (24, 48)),
        ("\u00a32,000 to \u00a310,000", (2000, 10000)),
        ("up to 500 euros", (-math.inf, 500)),
        ("ab 65 Jahren", (65, math.inf)),
        ("the price is 12 euros", None),
        ("10 to 5", None),
        ("between 5 and 7 days", (5, 7)),
        ("children in Year 5 and above", (5, math.inf)),
        ("12 oder j\u00fcnger", (-math.inf, 12)),
        ("zwischen 3 und 5 Jahren", (3, 5)),
        ("Up to 8 guests and 2 dogs are allowed.", (-math.inf, 8)),
        ("h\u00f6chstens 2 Hunde und 8 G\u00e4ste", (-math.inf, 2)),
    ],
)
def test_ranges_and_limits_are_found(text, bounds):
    assert limits(text) == bounds


def test_a_number_of_the_question_is_within_the_first_range_of_a_row():
    row = [("Amount", "\u00a32,000 to \u00a310,000"), ("Approved by", "director, up to 3 days")]
    assert is_in_range("Who approves a claim of \u00a32,500?", row)
    assert not is_in_range("Who approves a claim of \u00a312,500 in 2024?", row)
    assert not is_in_range("Who approves it?", row)


def test_rows_are_listed_by_a_yes_in_the_named_column_or_all_by_the_first_column():
    assert listed_rows("Where can visitors find parking?", SITES) == [0, 2]
    assert listed_rows("Which sites have no parking?", SITES) == [1]
    assert listed_rows("Name all sites.", SITES) == [0, 1, 2]
    assert listed_rows("Name all colours.", SITES) == []
    assert listed_rows("Name all sites.", []) == []


def test_the_column_with_most_words_of_the_question_decides_which_rows_are_listed():
    rows = [
        [("Name", "Ann"), ("Rent paid", "yes"), ("Deposit paid", "no")],
        [("Name", "Bob"), ("Rent paid", "no"), ("Deposit paid", "yes")],
    ]
    assert said_rows("Who hasn't paid the deposit?", rows) == [0]
    assert said_rows("Who has paid the rent?", rows) == [0]
    assert said_rows("Who has paid?", rows) == []  # which of the two is unclear
    assert said_rows("Who has a deposit?", rows, is_strict=True) == []


def test_the_words_of_a_column_are_no_negation():
    rows = [
        [("Shop", "A"), ("Closed", "yes"), ("Not insured", "yes"), ("Contract", "no")],
        [("Shop", "B"), ("Closed", "no"), ("Not insured", "no"), ("Contract", "yes")],
        [("Shop", "C"), ("Closed", "no"), ("Not insured", "yes"), ("Contract", "yes")],
    ]
    assert said_rows("Which shops are closed?", rows) == [0]
    assert said_rows("Which shops are not closed?", rows) == [1, 2]
    assert said_rows("Which shops are not insured?", rows) == [0, 2]
    assert said_rows("Which shops are insured?", rows) == []
    assert said_rows("Which shops have a contact?", rows, is_strict=True) == []


def test_the_question_names_the_column_of_its_answer():
    assert requested_header("Which order was late?", ["customer", "order_id"]) == "order_id"
    assert requested_header("Who was late?", ["customer", "order_id"]) is None
