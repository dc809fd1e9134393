"""A number that is quoted from a table has the unit that the header of its column names."""

import pytest

from engine.generation.quotes import with_unit
from tests.engine.generation.test_evidence import chosen
from tests.support.evidence import Scorer, evidence


def test_the_answer_has_the_unit_of_the_header_and_the_quote_is_unchanged():
    rows = "| Model: A10 | Weight (kg): 151 |\n| Model: B20 | Weight (kg): 38.50 |"
    best = chosen(evidence("How heavy is the B20?", Scorer("38.50"), rows))
    assert (best.text, best.quote.text) == ("38.50 kg", rows.split("\n")[1])


def test_a_number_of_two_columns_with_other_units_has_none():
    row = "| Model: A10 | Weight (kg): 12 | Width (cm): 12 |"
    assert chosen(evidence("How wide is the A10?", Scorer("12"), row)).text == "12"


@pytest.mark.parametrize(
    ("header", "value", "expected"),
    [
        ("Price (\u00a3)", "1,250.50", "\u00a31,250.50"),
        ("Price [\u00a3 per night]", "190", "\u00a3190 per night"),
        ("Result ($m)", "-3.5", "-$3.5m"),
        ("Umsatz (in Mio. \u20ac)", "3", "3"),
        ("Preis (\u20ac)", "38,50", "38,50 \u20ac"),
        ("Revenue (\u00a3 million)", "3", "\u00a33 million"),
        ("Share (%)", "12.5", "12.5%"),
        ("Speed (km/h)", "80", "80 km/h"),
        ("Area (m\u00b2)", "25", "25 m\u00b2"),
        ("Term (Months)", "24", "24 Months"),
        ("Price (EUR)", "5", "5 EUR"),
    ],
)
def test_units_are_written_as_is_usual(header, value, expected):
    assert with_unit(value, header) == expected


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Weight (kg)", "38 kg"),
        ("Weight (kg)", "light"),
        ("Weight (kg)", "3-5"),
        ("Weight (kg) 2024", "38"),
        ("Weight", "38"),
        ("Joined (year)", "2008"),
        ("Cost (\u20ac)", "\u20ac31"),
        ("Order (A10)", "38"),
        ("Room (old)", "38"),
        ("Price (\u00a3000)", "38"),
    ],
)
def test_other_cells_stay_as_they_are(header, value):
    assert with_unit(value, header) == value
