"""Which rows of a table a question means, against what a reader would mark."""

import time

import pytest

from engine.prompt.tables.conditions import conditions, rows_that_meet
from engine.prompt.tables.dates import full_date


def filtered_rows(question, rows):
    """Return the rows that meet a question's conditions; none instead of all."""
    found = conditions(question, rows)
    met = rows_that_meet(found, rows) if found else []
    return met if len(met) < len(rows) else []


INVOICES = [
    [("Invoice", name), ("Issued", issued), ("Customer", customer), ("Pieces", pieces), ("Amount", amount)]
    for name, issued, customer, pieces, amount in (
        ("A-1", "2025-01-31", "Osei", "12", "\u20ac1,200.00"),
        ("A-2", "2025-02-01", "Brandt", "3", "\u20ac80.50"),
        ("A-3", "2025-03-15", "Osei", "40", "\u20ac500.00"),
        ("A-4", "2026-03-02", "Brandt", "", "\u20ac500.01"),
        ("A-5", "", "Lind", "7", "-\u20ac20.00"),
    )
]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which tickets are open?", [0, 2]),
        ("Which tickets are open, not the waiting ones?", [0, 2]),
        ("Which tickets of Ann are open?", [0]),
        ("Which tickets have priority 2?", [1]),
        ("Which 2 tickets are there?", []),  # the number without its header
        ("Which tickets cost nothing?", [1]),
        ("Which tickets are about lamps?", []),  # all of them
        ("Which tickets are not open?", [1]),
        ("Which tickets of Ann aren't open yet?", [1]),
        ("Which tickets are lost?", []),
        ("Which tickets are neither open nor waiting?", []),
        ("Which tickets are no open ones?", []),
    ],
)
def test_rows_have_the_values_that_the_question_names(question, expected):
    rows = [
        [
            ("Ticket", "T-1"),
            ("Status", "open"),
            ("Agent", "Ann"),
            ("Priority", "1"),
            ("Fee", "\u00a35"),
            ("About", "lamps"),
        ],
        [
            ("Ticket", "T-2"),
            ("Status", "waiting for parts"),
            ("Agent", "Ann"),
            ("Priority", "2"),
            ("Fee", "free"),
            ("About", "lamps"),
        ],
        [
            ("Ticket", "T-3"),
            ("Status", "open"),
            ("Agent", "Bob"),
            ("Priority", "3"),
            ("Fee", "\u00a35"),
            ("About", "lamps"),
        ],
    ]
    assert filtered_rows(question, rows) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which invoices are over 500 euros?", [0, 3]),
        ("Which invoices are at least \u20ac500?", [0, 2, 3]),
        ("Which invoices have fewer than 12 pieces?", [1, 4]),
        ("Which invoices have between 7 and 12 pieces?", [0, 4]),
        ("Which invoices were issued in March?", [2, 3]),
        ("Which invoices were issued in March 2025?", [2]),
        ("Which invoices were issued in 2025?", [0, 1, 2]),
        ("Which invoices were issued before 1 February 2025?", [0]),
        ("Which invoices were issued since 01.02.2025?", [1, 2, 3]),
        ("Which invoices were issued until Feb 1, 2025?", [0, 1]),
        ("Welche Rechnungen nach dem 1. Februar 2025 gibt es?", [2, 3]),
        ("Which invoices of Osei are under 1000 euros?", [2]),
        ("Which invoices over 2000 euros are there?", []),  # not of the year 2000
        ("Which invoices may be late?", []),  # not in May
        ("Which invoices of Osei are over 30?", []),  # pieces or euros
        ("Which invoices have an amount over 1 thousand euros?", []),
        ("Which invoices have an amount over 1k?", []),
        ("Which invoices have an amount over 30 dollars?", []),
        ("Which invoices have an amount over 30 %?", []),
        ("Which invoices have no more than 7 pieces?", [1, 4]),
        ("Which invoices have no less than 7 pieces?", []),
        ("Which invoices with pieces cost over 1000 euros?", [0]),  # not over 1000 pieces
        ("Which invoices of Osei are below the limit?", []),
        ("Which invoices of Osei are over 30 dollars?", []),
        ("Which invoices of Osei are from last month?", []),
        ("Which invoices are from March 2025?", [2]),  # not since then
        ("Which invoices were issued after February?", []),  # of 2025 or of 2026
        ("Which invoices were issued from January to February 2025?", [0, 1]),
        ("Which invoices were issued between 1 February 2025 and 15 March 2025?", [1, 2]),
        ("Which invoices were issued from 2025-02-01 to 2025-12-31?", [1, 2]),
        ("Which invoices were issued in the first quarter of 2025?", [0, 1, 2]),
        ("Welche Rechnungen sind aus dem 1. Quartal 2026?", [3]),
        ("Which invoices were issued after Q1 2025?", [3]),
        ("Which invoices were issued on or after 2025-02-01?", [1, 2, 3]),
        ("Which invoices were issued on or before 2025-02-01?", [0, 1]),
        ("Which invoices were issued prior to March 2025?", [0, 1]),
        ("Which invoices were issued from March 2025 on?", []),
        ("Which invoices were issued at the end of March 2025?", []),
        ("Which invoices did Jan get?", []),  # a name
        ("Which invoices are dated 2025-03-15?", [2]),
        ("Which invoices were issued between January and February?", []),  # of 2025 or of 2026
        ("Which invoices were issued from 3 to 7 March 2025?", []),
        ("Which invoices of Osei are not urgent?", []),
        ("Which invoices are not from Osei or Brandt?", []),
        ("Which invoices of anyone but Osei are over 50 euros?", []),
        ("Which invoices are not over 500 euros?", []),
        ("Which invoices are over 900 euros or from Brandt?", []),
        ("Which invoices are over 900 euros and from Osei?", [0]),
    ],
)
def test_numbers_and_dates_limit_the_rows(question, expected):
    assert filtered_rows(question, INVOICES) == expected


def kinds(*values, header="Kind", others=()):
    return [[("Item", f"I-{n}"), (header, value), *others] for n, value in enumerate(values, start=1)]


@pytest.mark.parametrize(
    ("question", "values", "expected"),
    [
        ("Which items are paid?", ("paid", "not paid", "paid"), [0, 2]),
        ("Which items are not paid?", ("paid", "not paid", "paid"), [1]),
        ("Which items have a response?", ("no response", "late"), []),
        ("Which items are office supplies?", ("Office", "Office supplies", "Fuel"), [1]),
        ("Which items are office or office supplies?", ("Office", "Office supplies", "Fuel"), [0, 1]),
        ("Which items are not office supplies?", ("Office", "Office supplies", "Fuel"), []),
        ("Which items are internal?", ("internal", "international", "lost"), [0]),
        ("Which items are internals?", ("international", "lost"), []),
        ("Which items are deliveries?", ("delivery", "lost"), [0]),
        ("Which items are from the river?", ("River A", "River B", "Lake"), []),
        ("Welche Posten sind Reinigungsmittel?", ("Reinigung", "Maut"), []),
        ("Welche Posten sind keine Reinigung?", ("Reinigung", "Maut"), []),
    ],
)
def test_a_value_is_named_by_all_its_words_and_no_others(question, values, expected):
    assert filtered_rows(question, kinds(*values)) == expected


def test_a_value_of_two_columns_is_unclear_without_a_header():
    rows = [
        [("Ticket", f"T-{n}"), ("Agent", agent), ("Reporter", reporter)]
        for n, (agent, reporter) in enumerate((("Mia", "Ben"), ("Ben", "Mia"), ("Mia", "Mia")))
    ]
    assert filtered_rows("Which tickets are of Mia?", rows) == []
    assert filtered_rows("Which tickets are of the agent Mia?", rows) == [0, 2]


def test_a_column_of_yes_and_no_is_a_condition():
    rows = [
        [("Site", f"S-{n}"), ("City", city), ("Parking", parking), ("Beds", str(n))]
        for n, (city, parking) in enumerate((("Rome", "yes"), ("Oslo", "yes"), ("Rome", "no"), ("Oslo", "no")))
    ]
    assert filtered_rows("Which sites in Rome have parking?", rows) == [0]
    assert filtered_rows("Which sites with over 1 beds have parking?", rows) == []
    assert filtered_rows("Which sites with over 0 beds have parking?", rows) == [1]
    assert filtered_rows("Which sites have no parking?", rows) == [2, 3]
    assert filtered_rows("Which sites in Rome have no parking?", rows) == [2]
    assert filtered_rows("Which sites that aren't in Rome have parking?", rows) == []  # what is denied?
    assert filtered_rows("Which sites in Rome don't have any parking?", rows) == []  # the same
    assert filtered_rows("Which sites in non-parking areas are there?", rows) == [2, 3]


def test_a_word_with_un_denies_a_column_or_a_value():
    def bills(header, paid, unpaid):
        return [[("Bill", f"B-{n}"), ("Sum", str(n)), (header, paid if n % 2 else unpaid)] for n in range(4)]

    assert filtered_rows("Which unpaid bills are over 1?", bills("Paid", "yes", "no")) == [2]
    assert filtered_rows("Which bills are unpaid?", bills("Status", "paid", "late")) == [0, 2]
    assert filtered_rows("Which bills are unpaid?", bills("Status", "paid", "unpaid")) == [0, 2]
    assert filtered_rows("Welche Rechnungen sind unbezahlt?", bills("Bezahlt", "ja", "nein")) == [0, 2]
    assert filtered_rows("Which bills are under 2?", bills("Paid", "yes", "no")) == [0, 1]


def test_a_word_with_un_or_an_ending_is_no_other_word():
    rows = kinds("Gef\u00e4hr", "M\u00fcll", "lost")
    assert filtered_rows("Welche Posten sind ungef\u00e4hr?", rows) == []
    assert filtered_rows("Welche Posten sind von M\u00fcller?", rows) == []
    assert filtered_rows("Which items are unpaid?", kinds("paid", "refunded", "open")) == []  # which of the two?


def test_german_adjectives_are_found_in_any_form():
    rows = [
        [("Ticket", f"T-{n}"), ("Status", status), ("Priorit\u00e4t", priority)]
        for n, (status, priority) in enumerate((("offen", "hoch"), ("zu", "hoch"), ("offen", "tief")))
    ]
    assert filtered_rows("Welche offenen Tickets gibt es?", rows) == [0, 2]
    assert filtered_rows("Welche Tickets mit hoher Priorit\u00e4t sind offen?", rows) == [0]
    assert filtered_rows("Which opener tickets are there?", rows) == []


def test_a_name_is_found_as_one_of_several_words_of_a_cell():
    rows = kinds("Ann Osei", "Ben Lutz", "Cem Osei", header="Agent", others=[("Maker", "Lutz")])
    assert filtered_rows("Which items are from Osei?", rows) == [0, 2]
    assert filtered_rows("Which items are from Ben?", rows) == [1]
    assert filtered_rows("Which items are from Lutz?", [*rows, *kinds("Ann Osei", header="Agent")]) == [0, 1, 2]
    assert filtered_rows("Which items are from the river?", kinds("River A", "Lake")) == []


def test_numbers_that_cannot_be_compared_are_not_limited():
    question = "Which items have a size over 2?"
    assert filtered_rows(question, kinds("0.125", "1.250", "2.500", header="Size")) == []  # thousands?
    assert filtered_rows(question, kinds("3 kg", "900 g", "1 kg", header="Size")) == []
    assert filtered_rows(question, kinds("\u20ac3", "$3", "$1", header="Size")) == []
    euros = kinds("3", "4", "1", header="Amount", others=[("Currency", "USD")])
    assert filtered_rows("Which items are over 2 euros?", euros) == []
    assert filtered_rows("Which items are over 2 dollars?", euros) == [0, 1]


def test_conditions_are_named_as_the_question_says_them():
    found = conditions("Which invoices of Osei since 1 March 2025 are over 300 euros?", INVOICES)
    assert list(map(str, found)) == ["Customer: Osei", "Issued: since 1 March 2025", "Amount: over 300 euros"]
    assert rows_that_meet(found, [*INVOICES, [("Invoice", "Total"), *INVOICES[2][1:]]]) == [2]


def dated(*dates, headers=("Opened", "Closed on")):
    return [[("Ticket", f"T-{n}"), *zip(headers, pair, strict=True)] for n, pair in enumerate(dates, start=1)]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which tickets were opened in May 2025?", [0, 1]),
        ("Which tickets were closed in June 2025?", [1]),
        ("Which tickets were closed after 5 May 2025?", [1]),
        ("Which tickets are from May 2025?", []),  # opened or closed
        ("Which tickets were opened in May 2025 and closed in June 2025?", []),
        ("Which tickets were opened not before June 2025?", []),
    ],
)
def test_dates_are_those_of_the_column_that_the_question_names(question, expected):
    rows = dated(("2025-05-01", "2025-05-03"), ("2025-05-02", "2025-06-01"), ("2025-06-03", ""), ("2025-06-04", ""))
    assert filtered_rows(question, rows) == expected


def test_dates_are_those_of_a_column_without_another_name():
    rows = dated(("2025-05-01", "2025-06-03"), ("2025-06-02", "2025-06-04"), headers=("Date", "Paid on"))
    assert filtered_rows("Which tickets are from June?", rows) == [1]


def test_dates_with_the_month_first_and_names_of_months_are_unclear():
    def orders(*dates, customer="Osei"):
        return [[("Order", f"O-{n}"), ("Due", date), ("Customer", customer)] for n, date in enumerate(dates, start=1)]

    assert filtered_rows("Which orders are due in March?", orders("28/04/2025", "03/03/2025")) == [1]
    assert filtered_rows("Which orders are due in March?", orders("03/28/2025", "03/03/2025", "04/03/2025")) == []
    assert filtered_rows("Which orders are due in March?", orders("03/04/2025", "04/03/2025")) == []
    assert filtered_rows("Which orders are due in 2025?", orders("03/04/2025", "04/03/2026")) == [0]
    assert filtered_rows("Which orders are of Jan?", orders("2025-01-01", "2025-02-01", customer="Jan Osei")) == []
    assert filtered_rows("Which orders are due in Jan?", orders("2025-01-01", "2025-02-01", customer="Jan Osei")) == [0]


def test_a_date_without_a_column_of_dates_is_not_understood():
    rows = [
        [("Car", f"C-{n}"), ("Built", str(2018 + n)), ("Fuel", fuel)] for n, fuel in enumerate(["gas", "diesel"] * 2)
    ]
    assert filtered_rows("Which diesel cars were registered after March 2019?", rows) == []
    assert filtered_rows("Which cars were built in 2019?", rows) == [1]


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("2025-03-04", (2025, 3, 4)),
        ("2025-03-04 09:30", (2025, 3, 4)),
        ("04.03.2025", (2025, 3, 4)),
        ("4/3/2025", (2025, 3, 4)),
        ("4 March 2025", (2025, 3, 4)),
        ("4. M\u00e4rz 2025", (2025, 3, 4)),
        ("Mar 4, 2025", (2025, 3, 4)),
        ("Dezember 2024", (2024, 12, None)),
        ("2025", None),
        ("March", None),
        ("Marchand", None),
        ("12.50", None),
        ("", None),
    ],
)
def test_dates_of_cells_are_read_in_english_and_german(value, date):
    assert full_date(value) == date


def test_hostile_questions_take_little_time():
    start = time.process_time()
    for question in ("1" * 5_000, "1," * 2_500, "amount from 1 to " * 1_000, "jan " * 2_000):
        conditions(question, INVOICES * 20)
    assert time.process_time() - start < 5


LOANS = [
    [
        ("Loan", f"L-{n}"),
        ("date_out", f"2025-0{n}-03"),
        ("To be paid by", ""),
        *([("date_returned", back)] if back else []),
    ]
    for n, back in enumerate(("2025-02-01", "", "2025-04-01", "", "2025-09-01"), start=1)
]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which loans have not been returned yet?", [1, 3]),
        ("Which loans are unreturned?", [1, 3]),
        ("Which loans have not come back?", [1, 3]),
        ("Which loans are returned?", [0, 2, 4]),
        ("Which loans out in the second quarter of 2025 have not been returned?", [3]),
        ("Which loans out in the first half of 2025 have not been returned?", [1, 3]),
        ("Which loans were returned in April 2025?", [2]),
        ("Which loans were not returned in April 2025?", []),  # at all, or then?
        ("Which loans are to be returned?", []),  # not yet
        ("Which loans must be returned?", []),
        ("Which loan was returned first?", []),
        ("Which loans were returned late?", []),
        ("How many returns are there?", []),  # all
        ("Which loans were paid?", []),  # until when, is all that is known
    ],
)
def test_dates_when_something_was_done_are_a_condition(question, expected):
    assert filtered_rows(question, LOANS) == expected


def test_a_half_of_a_year_is_a_period():
    assert filtered_rows("Which invoices were issued in the first half of 2025?", INVOICES) == [0, 1, 2]
    assert filtered_rows("Which invoices were issued in H1 2026?", INVOICES) == [3]
    assert filtered_rows("Which invoices were issued in the second half of 2025?", INVOICES) == []
    rooms = [[("Match", f"M-{n}"), ("Date", f"2025-0{n}-01"), ("Room", f"H{n % 2 + 1}")] for n in range(1, 5)]
    assert filtered_rows("Which matches are in H1?", rooms) == [1, 3]
    assert filtered_rows("Which matches had goals in the first half?", rooms) == []


def test_a_part_of_one_name_that_several_rows_have_is_a_condition():
    rows = kinds("Brackwater Lettings Ltd", "Ann Doe", "Brackwater Lettings Ltd", "Lettings Direct", header="Owner")
    assert filtered_rows("items owned by brackwater", rows) == [0, 2]
    assert filtered_rows("items of Brackwater Lettings", rows) == [0, 2]
    assert filtered_rows("items owned by lettings", rows) == []  # of two names
    assert filtered_rows("items owned by doe", rows) == []  # one row, perhaps by chance
    groups = kinds("Open Group", "Open Group", "Alder Bank", "Alder Bank", "No Pets", "No Pets")
    for question in ("Which items are open?", "items paid by bank", "items with pets"):
        assert filtered_rows(question, groups) == []  # ordinary words, or denied


def test_a_year_in_the_header_that_a_question_names_is_no_date():
    rows = [
        [("Supplier", "A"), ("Audit score 2025", "80"), ("Contract until", "2026-05-01")],
        [("Supplier", "B"), ("Audit score 2025", "70"), ("Contract until", "2025-05-01")],
    ]
    assert conditions("Which supplier has the lowest audit score in 2025?", rows) == []
    assert filtered_rows("Which contracts run until 2025?", rows) == [1]
