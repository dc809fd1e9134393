"""The difference of two columns of a row, and questions that ask for something else."""

import pytest

from engine.prompt.tables.differences import difference, difference_of_rows

SOLD = [("Key figure", "Machines sold"), ("2024", "9,840"), ("2022", "9,460"), ("2020", "7,655")]
PLANS = [("Feature", "Users"), ("Basic", "5"), ("Pro", "12.5")]


@pytest.mark.parametrize(
    ("question", "row", "expected"),
    [
        ("How many more machines were sold in 2024 than in 2020?", SOLD, "2020: 7,655 → 2024: 9,840 (+2,185)"),
        ("By how much did machines sold fall from 2020 to 2024?", SOLD, "2020: 7,655 → 2024: 9,840 (+2,185)"),
        (
            "How much did costs fall from 2023 to 2024?",
            [("Key figure", "Costs"), ("2023", "0.75"), ("2024", "0.4")],
            "2023: 0.75 → 2024: 0.4 (\u22120.35)",
        ),
        (
            "Um wie viel sind die Kosten von 2023 auf 2024 gestiegen?",
            [("Kennzahl", "Kosten"), ("2023", "1.200,4"), ("2024", "1.200,75")],
            "2023: 1.200,4 → 2024: 1.200,75 (+0,35)",
        ),
        ("What is the difference in users between Basic and Pro?", PLANS, "Basic: 5 → Pro: 12.5 (+7.5)"),
        ("What is the difference between Basic and Pro?", PLANS, ""),  # of which row?
        ("How many machines were sold in 2024 and 2020?", SOLD, ""),
        ("Why did machines sold drop between 2020 and 2024?", SOLD, ""),
        ("What was the growth rate of machines sold from 2020 to 2024?", SOLD, ""),
        ("How many times more machines were sold in 2024 than in 2020?", SOLD, ""),
        ("How many more machines were sold in 2024 than in 2020 and 2022?", SOLD, ""),
        (
            "How much more cement was used in 2024 than in 2020?",
            [("Material", "Cement"), ("2020 (t)", "700"), ("2024 (kt)", "9")],
            "",
        ),
    ],
)
def test_the_columns_that_a_question_compares(question, row, expected):
    assert difference(question, row) == expected


ROOMS = [
    [("Type", "D2"), ("Beds", "24"), ("Per month", "\u20ac214")],
    [("Type", "S1"), ("Beds", "22"), ("Per month", "\u20ac348")],
]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How much cheaper per month is a D2 bed than S1?", "Per month: 134 \u20ac (D2: \u20ac214, S1: \u20ac348)"),
        ("How many more beds are in D2 than in S1?", "Beds: 2 (D2: 24, S1: 22)"),
        ("How much cheaper is D2 than S1?", ""),  # in which column?
        ("Is D2 cheaper per month than S1?", ""),
        ("How much cheaper per month for two is D2 than S1?", ""),
        ("How many times more beds are in D2 than in S1?", ""),
        ("How many per cent cheaper per month is D2 than S1?", ""),
    ],
)
def test_the_rows_that_a_question_compares(question, expected):
    assert difference_of_rows(question, *ROOMS) == expected
