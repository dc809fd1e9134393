"""Which of the columns that are months or years a question means."""

import pytest

from engine.prompt.tables.period_columns import lacks_period, period_column

MONTHS = ["Category", "Jan", "Feb", "March", "Total"]
YEARS = ["Department", "Outturn 2022/23", "2024 actual", "Budget 2025"]


@pytest.mark.parametrize(
    ("question", "headers", "expected"),
    [
        ("What did we spend on food in February altogether?", MONTHS, "Feb"),
        ("What did we spend on food in January and March?", MONTHS, None),
        ("What may we spend on food?", MONTHS, None),
        ("What was spent in 2023?", YEARS, "Outturn 2022/23"),
        ("What is the budget of 2025?", YEARS, "Budget 2025"),
        ("What was spent in February?", ["Category", "Feb", "Total"], None),
    ],
)
def test_a_question_names_the_column_of_its_month_or_year(question, headers, expected):
    assert period_column(question, headers) == expected


@pytest.mark.parametrize(
    ("question", "headers", "expected"),
    [
        ("How much was gas in June?", MONTHS, True),
        ("How much was gas in February?", MONTHS, False),
        ("How much was gas?", MONTHS, False),
        ("What was spent in 2021?", YEARS, True),
        ("What changed from 2021 to 2026?", YEARS, False),
        ("What was spent in 2021?", ["Department", "Budget 2025"], False),
        ("What did the Expo 2020 cost?", ["Project", "Budget 2023", "Actual 2023"], False),
        ("What did Jan Novak sell?", ["Month", "Apr", "May", "Jun"], False),
        ("What is the fee in 2026?", ["Kind", "Fee until 2024", "Fee from 2025"], False),
        ("What is the capacity in 2025?", ["Plant", "2024-2026", "2027-2029"], False),
        ("What was produced in 2015?", ["Year", "GDP (2010 US$)", "GDP (2020 US$)"], False),
    ],
)
def test_a_row_lacks_the_month_or_year_of_a_question_that_is_none_of_its_columns(question, headers, expected):
    assert lacks_period(question, [(header, "2015" if header == "Year" else "1") for header in headers]) is expected
