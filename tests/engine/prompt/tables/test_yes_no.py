"""Rows that say yes or no, against what a reader would point at."""

from engine.prompt.tables.yes_no import listed_rows, said_rows

SITES = [
    [("Site", "Harrow"), ("Electricity (MWh)", "2,140"), ("Staff", "12"), ("Parking", "yes")],
    [("Site", "Stainby"), ("Electricity (MWh)", "860"), ("Staff", "31"), ("Parking", "no")],
    [("Site", "Orton"), ("Electricity (MWh)", "1,005.5"), ("Staff", "7"), ("Parking", "yes")],
    [("Site", "Total"), ("Electricity (MWh)", "4,005.5"), ("Staff", "50"), ("Parking", "")],
]


def test_rows_are_listed_by_a_yes_in_the_named_column_or_all_by_the_first_column():
    assert listed_rows("Where can visitors find parking?", SITES) == [0, 2]
    assert listed_rows("Which sites have no parking?", SITES) == [1]
    assert listed_rows("Name all sites.", SITES) == [0, 1, 2]
    assert listed_rows("Name all colours.", SITES) == []
    assert listed_rows("Names of all wardens", [[*row, ("Warden", "Ann")] for row in SITES]) == [0, 1, 2]
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
