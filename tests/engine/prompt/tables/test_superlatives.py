"""Superlatives over the rows of a table, and over its columns where these are the things compared."""

import time

import pytest

from engine.prompt.tables.superlatives import extreme_cell
from tests.engine.prompt.tables.test_yes_no import SITES


def table(*lines):
    header, *rows = ([cell.strip() for cell in line.split("|")] for line in lines)
    return [list(zip(header, row, strict=True)) for row in rows]


LAMPS = table(
    "Feature | Lux A | Lux B | Lux C",
    "Weight | 3 kg | 4.5 kg | 5 kg",
    "Price | \u00a340 | \u00a330 | \u00a355",
    "Charging time | 5 h | 330 min | 4 h",
    "Reset time | 9 s | 7 s | 8 s",
    "Lifetime in years | 10 | 10 | 8",
    "Waterproof | yes | no | yes",
    "Noise | 20 dB | n/a | 30 dB",
)
PRICES = table(
    "Treatment | Cat | Dog", "Vaccine | \u00a346 | \u00a352", "Chip | \u00a322 | \u00a321", "Comb | \u00a310 | \u00a312"
)


def found(question, rows, similarities=()):
    result = extreme_cell(question, rows, dict(similarities))
    return result and (result.row, result.name)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which site uses the most electricity?", (0, "Harrow")),
        ("Which site has the fewest staff?", (2, "Orton")),
        ("Which is the site with the fewest staff?", (2, "Orton")),
        ("Welcher Standort hat am meisten Staff?", (1, "Stainby")),
        ("Which site uses electricity?", None),
        ("What's the most I may spend on electricity?", None),
        ("Which site has at least 12 staff?", None),
        ("Which site has at most 12 staff?", None),
        ("Welcher Standort hat h\u00f6chstens 12 Staff?", None),
    ],
)
def test_a_superlative_picks_the_row_with_the_extreme_value(question, expected):
    assert found(question, SITES) == expected


def test_only_the_rows_that_the_question_means_are_compared():
    rows = table(
        "Name | Team | Pay", "Ann | IT | 50", "Ben | IT | 30", "Cem | IT | 40", "Dov | HR | 90", "Eva | HR | 80"
    )
    assert found("Which IT name has the highest pay?", rows) == (0, "Ann")
    assert found("Which HR name has the highest pay?", rows) is None  # of two rows
    assert found("Which name without HR has the highest pay?", rows) is None


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which order is the latest?", (2, "A-3")),
        ("Which order was placed first?", (1, "A-2")),
        ("Which is the most recent order?", (2, "A-3")),
        ("What is the oldest late order?", (0, "")),
        ("Which order is due last?", (0, "A-1")),
        ("Welcher Auftrag ist der neueste?", (2, "A-3")),
        ("Which order has the highest amount?", (1, "A-2")),
        ("What is the highest amount?", (1, "")),  # the row has the highest one
        ("What is the highest tower?", None),
        ("What is the most that an amount may be?", None),
        ("Which order came first or second?", None),
        ("Which is the second most recent order?", None),
        ("What are the three highest amounts?", None),
    ],
)
def test_dates_are_compared_and_values_asked_for(question, expected):
    rows = table(
        "Order | Date | Due | State | Amount",
        "A-1 | 2025-03-01 | 2025-09-01 | late | 30",
        "A-2 | 2025-01-15 | 2025-04-01 | sent | 90",
        "A-3 | 2025-06-30 | 2025-08-01 | late | 20",
        "A-4 | 2025-05-01 | 2025-06-01 | late | 40",
    )
    assert found(question, rows) == expected


def test_most_before_an_adjective_compares_what_the_adjective_says():
    rows = table("Item | Price", "Tent | 900", "Band | 450", "Cake | 80", "Band | 30")
    assert found("What is the most expensive item?", rows) == (0, "")
    assert found("What was the most expensive item?", rows) == (0, "Tent")
    assert found("Which item was the least expensive?", rows) == (3, "Band")


def test_dates_that_the_question_does_not_name_are_not_compared():
    rows = table("Name | Birth date | Club", "Ann | 1990-02-03 | A", "Ben | 1980-02-03 | B", "Cem | 1985-05-06 | A")
    assert found("Who finished last?", rows) is None
    assert found("Who has the latest birth date?", rows) == (0, "Ann")


def test_rows_with_the_same_name_have_to_be_added_up():
    rows = table("Player | Goals", "Ann | 3", "Ben | 4", "Ann | 2")
    assert found("Which player has the most goals?", rows) is None
    assert found("Which player has the highest goals?", rows) == (1, "Ben")


def test_the_noun_after_most_is_counted_and_a_number_names_no_row():
    rows = table("Type | Floor | Rooms | Beds", "S1 | 3 | 22 | 22", "D1 | 2 | 14 | 28", "T1 | 4 | 6 | 18")
    assert found("Which type of room provides the most beds?", rows) == (1, "D1")
    assert found("Which room has the most beds?", rows) == (1, "D1")


def test_similarity_decides_where_no_word_names_the_column():
    question = "Which site employs the most people?"
    assert found(question, SITES, {"Staff": 0.6, "Electricity (MWh)": 0.1}.items()) == (1, "Stainby")
    assert found(question, SITES[:2]) is None  # of two rows a superlative says little
    assert found(question, [SITES[0]] * 3) is None  # equal values


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which lamp is the lightest?", (0, "Lux A")),
        ("Welche Lampe ist am schwersten?", (0, "Lux C")),
        ("Which lamp is the least expensive?", (1, "Lux B")),
        ("Which feature is the cheapest?", (1, "Lux B")),
        ("Which lamp has the fastest reset?", (3, "Lux B")),
        ("Which lamp has the shortest charging time?", (2, "")),  # different units: the row is all that can be said
        ("Which lamp has the longest lifetime?", (4, "")),  # two are equal
        ("Which lamp is the quietest?", None),  # not all have a number
        ("Which lamp is the nicest?", None),
    ],
)
def test_columns_are_compared_within_the_row_that_the_question_names(question, expected):
    assert found(question, LAMPS) == expected


def test_a_table_of_one_unit_is_compared_the_way_that_the_question_names():
    assert found("Which animal is the cheapest to chip?", PRICES) == (1, "Dog")
    assert found("Which treatment is the cheapest for a dog?", PRICES) == (2, "Comb")


def test_german_labels_are_compared():
    rows = table(
        " | Eins | Zwei", "Gewicht | 12,5 kg | 9 kg", "Preis | 80 \u20ac | 95 \u20ac", "Garantie | 2 Jahre | 1 Jahr"
    )
    assert found("Welches Ger\u00e4t ist am leichtesten?", rows) == (0, "Zwei")
    assert found("Welches Ger\u00e4t ist das g\u00fcnstigste?", rows) == (1, "Eins")
    assert found("Welches Ger\u00e4t hat die l\u00e4ngste Garantie?", rows) == (2, "Eins")


def test_a_total_is_no_competitor():
    rows = table("Income | 2023 | 2024 | Total", "Fees | 300 | 400 | 700", "Gifts | 90 | 20 | 110")
    assert found("In which year were the most fees paid?", rows) == (0, "2024")


def test_a_column_with_different_units_is_not_compared():
    rows = table("Part | Delivery", "Pump | 3 days", "Hose | 2 weeks", "Belt | 5 days")
    assert found("Which part has the shortest delivery?", rows) is None


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("4 \u00b0C", "-3 \u00b0C", "0 \u00b0C"), (1, "B")),
        (("\u20ac4", "-\u20ac3", "\u20ac0"), (1, "B")),
        (("0.125", "1.250", "0.375"), None),  # a thousand?
        (("03.04.2025", "01.05.2025", "02.04.2025"), None),
    ],
)
def test_negative_numbers_are_compared_and_unclear_ones_are_not(cells, expected):
    rows = table("Sample | Level", *(f"{name} | {cell}" for name, cell in zip("ABC", cells, strict=True)))
    assert found("Which sample has the lowest level?", rows) == expected


def test_hostile_questions_take_little_time():
    start = time.process_time()
    for question in ("which " * 20_000, "which" + " a" * 50_000, "most" * 50_000):
        extreme_cell(question, LAMPS, {})
    assert time.process_time() - start < 5


COSTS = table(
    "Category | Jan | Feb | Mar | Quarter",
    "Rent | 900 | 900 | 900 | 2,700",
    "Power | 310 | 290 | 150 | 750",
    "Repairs | 0 | 700 | 20 | 720",
    "Total | 1,210 | 1,890 | 1,070 | 4,170",
)
STOCK = table(
    "Code | Item | Fence type | Price | Start date",
    "FL-1 | White flour | none | 19.80 | 2024-01-02",
    "FL-2 | Rye flour | none | 18.95 | 2024-03-04",
    "FL-3 | Spelt flour | none | 27.60 | 2025-05-06",
    "YE-1 | Yeast | none | 3.15 | 2024-02-02",
)


@pytest.mark.parametrize(
    ("question", "rows", "expected"),
    [
        ("Which month was the most expensive?", COSTS, (3, "Feb")),
        ("most expensive month, all costs together?", COSTS, (3, "Feb")),
        ("In which month was power lowest?", COSTS, (1, "Mar")),
        ("Which flour is the cheapest?", STOCK, (1, "FL-2")),
        ("cheapest flour?", STOCK, (1, "FL-2")),
        ("Which product is the cheapest?", STOCK, (3, "YE-1")),
        ("Which fence company was the cheapest?", STOCK, (3, "YE-1")),  # not its type
        ("What is the newest item?", STOCK, (2, "")),
        ("Please send the cheapest flour", STOCK, None),
    ],
)
def test_periods_kinds_and_questions_without_a_question_word(question, rows, expected):
    assert found(question, rows) == expected


def test_what_the_rows_are_called_does_not_name_the_column():
    rows = table(
        "Site | Part of Norwell since | Employees", "Goole | 2023 | 72", "Hexham | 1971 | 523", "Wexford | 2006 | 247"
    )
    assert found("Which Norwell site has the most employees?", rows) == (1, "Hexham")


SHOP = table(
    "Item | Category | Price",
    "Rye bread | bread | 1.20",
    "White flour | flour | 1.90",
    "Rye flour | flour | 6.40",
    "Spelt flour | flour | 3.10",
    "Rotwein | wine | 6.50",
    "Weisswein | wine | 5.90",
    "Rosewein | wine | 7.00",
)
INVOICES = table(
    "No | Customer | Amount | Status",
    "R-1 | Miller | 220 | paid",
    "R-2 | Brandt | 900 | paid",
    "R-3 | Miller | 520 | open",
    "R-4 | Brandt | 90 | cancelled",
)
STAFF = table(
    "Name | Birth date | Start date | Team",
    "Carla | 1969-01-15 | 2019-04-15 | A",
    "Eva | 1979-03-03 | 2010-01-15 | B",
    "Finn | 1990-06-06 | 2021-01-01 | B",
)
RUNS = table("Runner | Time (s) | Age", "Ann | 9.93 | 20", "Ben | 9.58 | 31", "Cem | 9.71 | 28")


@pytest.mark.parametrize(
    ("question", "rows", "expected"),
    [
        ("What is the cheapest flour?", SHOP, (1, "")),
        ("What's the most expensive wine?", SHOP, (6, "")),
        ("Which aisle has the cheapest flour?", SHOP, None),  # 'aisle' may be a condition
        ("billigster Wein?", SHOP, (5, "Weisswein")),
        ("Which cheese is the cheapest?", SHOP, None),
        ("Which flours are the second-cheapest?", SHOP, None),
        ("Which two flours are the cheapest?", SHOP, None),
        ("What is the largest unpaid invoice?", INVOICES, None),
        ("Which customer was the most expensive?", INVOICES, None),  # each has several rows
        ("Which customer has the lowest average amount?", INVOICES, None),
        ("Which invoice is the largest in Madrid?", INVOICES, None),
        ("Who is the oldest?", STAFF, (0, "Carla")),
        ("Who is the youngest?", STAFF, (2, "Finn")),
        ("Who is the newest member of staff?", STAFF, (2, "Finn")),
        ("Who was the fastest?", RUNS, (1, "Ben")),
        ("Who is the oldest?", RUNS, (1, "Ben")),
        ("Which month had the highest insurance?", COSTS, None),
        ("Which month was cheapest without repairs?", COSTS, None),
        ("In which month did power fall the most?", COSTS, None),
        ("Welcher Monat war am teuersten?", COSTS, (3, "Feb")),
    ],
)
def test_a_superlative_is_certain_only_if_every_word_is_understood(question, rows, expected):
    result = extreme_cell(question, rows, {})
    assert ((result and result.is_certain and (result.row, result.name)) or None) == expected


def test_the_name_of_the_document_and_its_headings_are_known_words():
    for about, is_certain in (("", False), ("ferries.pdf Ships of the line", True)):
        result = extreme_cell(
            "Which ferry is the fastest?", table("Ship | Speed", "A | 14", "B | 17", "C | 12"), {}, about
        )
        assert result is not None and (result.name, result.is_certain) == ("B", is_certain)


def test_only_the_newest_is_found_by_a_start_date():
    rows = table("Name | Start date", "Carla | 2019-04-15", "Eva | 2010-01-15", "Finn | 2021-01-01")
    assert found("Who is the newest employee?", rows) == (2, "Finn")
    assert found("Who is the oldest employee?", rows) is None  # by birth


def test_words_of_any_cell_and_parts_that_are_conditions_are_known():
    rows = table(
        "Part | Ordered on | Amount | Lead time (weeks)",
        "K-1 | 2025-01-10 | 20 | 9",
        "K-2 | 2025-02-10 | 90 | 20",
        "K-3 | 2025-07-10 | 95 | 12",
        "K-4 | 2025-03-01 | 10 | 11",
    )
    assert extreme_cell("Which part has the longest lead time?", rows, {}) == (1, "K-2", True, False)
    assert extreme_cell("Which was the single largest order in the first half of 2025?", rows, {}).is_certain
    assert not extreme_cell("Which was the largest late order?", rows, {}).is_certain
    assert extreme_cell("whats the longest lead time pls", rows, {}) == (1, "", True, False)


def test_the_end_of_a_name_is_no_name():
    rows = table("Order | Contact | Amount", "O-1 | Hanna | 20", "O-2 | Martina | 90", "O-3 | Johanna | 40")
    for name in ("Anna", "Tina"):
        result = extreme_cell(f"Which order of {name} has the highest amount?", rows, {})
        assert result is None or not result.is_certain
