"""Numbers and codes in questions and cells."""

import pytest

from engine.prompt.tables.amounts import cell_number, codes, names_money, numbers, read_number


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


def test_the_number_of_a_cell_is_without_its_unit_and_the_mark_of_a_footnote():
    values = ["\u00a31,250", "7.2\u00b9", "9 %\u00b2", "5 m\u00b2", "about 5"]
    assert [cell_number(value) for value in values] == [1250, 7.2, None, 5, None]


def test_numbers_of_a_question_have_no_sign_and_are_no_years_or_parts_of_codes():
    assert numbers("Is -5 or \u20ac1,250.50 of 2024 for F-04 or 3 - 4?") == [5, 1250.5, 3, 4]


@pytest.mark.parametrize(
    ("text", "is_money"),
    [
        ("Net_amount", True),
        ("Rechnungsbetrag", True),
        ("Geb\u00fchr", True),
        ("Paid: 12 EUR", True),
        ("day_rate_gbp", True),
        ("Network", False),
        ("Messwert", False),
        ("Pieces: 12", False),
    ],
)
def test_headers_and_cells_name_money(text, is_money):
    assert names_money(text) is is_money
