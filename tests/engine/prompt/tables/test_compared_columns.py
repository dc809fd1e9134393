"""Rows in which one column is below or above another, against what a reader would mark."""

import pytest

from engine.prompt.tables.compared_columns import find_compared_columns
from engine.prompt.tables.conditions import conditions, rows_that_meet

STOCK = [
    [("Item", item), ("In stock", stock), ("Reorder level", level), ("Unit price", price), ("Supplier", supplier)]
    for item, stock, level, price, supplier in (
        ("Bolts", "120", "200", "\u20ac0.12", "Feld"),
        ("Nuts", "500", "200", "\u20ac0.05", "Feld"),
        ("Bearings", "14", "20", "\u20ac8.50", "Krone"),
        ("Oil", "9", "9", "\u20ac31.00", "Mira"),
    )
]
BUDGET = [
    [
        ("Department", name),
        ("Budget 2025 (\u20ac)", budget),
        ("Actual 2025 (\u20ac)", actual),
        ("Variance (\u20ac)", rest),
    ]
    for name, budget, actual, rest in (
        ("Sales", "120,000", "131,500", "11,500"),
        ("IT", "80,000", "79,200", "-800"),
        ("HR", "45,000", "45,000", "0"),
    )
]
FORECAST = [
    [("Site", "A"), ("Plan", "10"), ("Forecast", "12"), ("Order intake", "9")],
    [("Site", "B"), ("Plan", "10"), ("Forecast", "9"), ("Order intake", "11")],
]


@pytest.mark.parametrize(
    ("question", "rows", "expected"),
    [
        ("Which items are below their reorder level?", STOCK, [0, 2]),
        ("Which Krone items are under the reorder level?", STOCK, [2]),
        ("Which items have more stock than their reorder level?", STOCK, [1]),
        ("Which departments exceeded their budget?", BUDGET, [0]),
        ("Which departments spent less than their budget?", BUDGET, [1]),
        ("Which sites have an order intake above the plan?", FORECAST, [1]),
        ("Which departments over budget are not IT?", BUDGET, [0]),
    ],
)
def test_rows_are_those_whose_columns_compare_as_the_question_says(question, rows, expected):
    assert rows_that_meet(conditions(question, rows), rows) == expected


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("Which sites are above the plan?", FORECAST),  # the forecast, or the order intake?
        ("Which sites exceeded their order target?", FORECAST),
        ("How many departments are at or above budget?", BUDGET),
        ("Which departments were over budget in 2024?", BUDGET),
        ("Which items with a lead time over 9 days are below their level?", STOCK[:0]),
        ("Which items cost more than 10 euros?", STOCK),
        ("Which items are below the window?", STOCK),
        ("Which items are below the level?", [[*row, ("Alarm level", "5")] for row in STOCK]),
    ],
)
def test_no_columns_are_compared_if_it_is_unclear_which_are_meant(question, rows):
    assert find_compared_columns(question, rows) is None


def test_a_denied_comparison_is_not_understood():
    assert conditions("Which items are not below their reorder level?", STOCK) is None
