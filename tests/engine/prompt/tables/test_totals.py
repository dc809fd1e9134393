"""Numbers, sums and means of rows, against sums by hand; and questions that get none."""

import pytest

from engine.prompt.tables.strict import listed_by_conditions
from engine.prompt.tables.totals import asks_for_result, result_of_rows

ROWS = [
    [
        ("Trip", f"T-{number}"),
        ("Date", date),
        ("Driver", driver),
        ("Purpose", purpose),
        ("km", km),
        ("Cost (\u00a3)", cost),
    ]
    for number, (date, driver, purpose, km, cost) in enumerate(
        (
            ("2025-01-03", "Ada", "delivery", "40", "12.50"),
            ("2025-01-09", "Ben", "delivery", "10", "3.00"),
            ("2025-01-20", "Ada", "service", "5", "99.95"),
            ("2025-02-02", "Ben", "delivery", "20", "6.05"),
            ("2025-02-11", "Ada", "delivery", "31", "9.00"),
            ("2025-02-12", "Cleo", "service", "7", "1,250.00"),
            ("2025-02-28", "Cleo", "visit", "60", "18.00"),
            ("2025-03-01", "Ben", "visit", "12", "4.00"),
        ),
        start=1,
    )
]
KOSTEN = [
    [("Beleg", f"B{number}"), ("Datum", f"0{number}.04.2024"), ("Art", art), ("Betrag", f"{betrag} \u20ac")]
    for number, (art, betrag) in enumerate(
        (
            ("Diesel", "1.060,40"),
            ("Reifen", "300,00"),
            ("Diesel", "55,10"),
            ("Maut", "9,90"),
            ("Diesel", "61,00"),
            ("Maut", "12,00"),
            ("Reifen", "80,00"),
            ("Maut", "7,50"),
        ),
        start=1,
    )
]


@pytest.mark.parametrize(
    ("question", "result"),
    [
        ("How many trips are there?", "8"),
        ("How many trips did Ada make?", "3 (Driver: Ada)"),
        ("How many trips went over 20 km?", "3 (km: over 20 km)"),
        ("How many times did we drive for a delivery?", "4 (Purpose: delivery)"),
        (
            "how many times did we drive for a delivery between january and end of february",
            "4 (Purpose: delivery; Date: between january and end of february)",
        ),
        ("How many trips were there in February?", "4 (Date: February)"),
        ("How many trips were there from January to February?", "7 (Date: from January to February)"),
        ("How many delivery trips are there?", "4 (Purpose: delivery)"),
        ("How many trips with the purpose service are there?", "2 (Purpose: service)"),
        ("What did all trips cost in total?", "\u00a31,402.50 (sum: Cost (\u00a3); 8 rows)"),
        ("How much was spent on service altogether?", "\u00a31,349.95 (sum: Cost (\u00a3); 2 rows; Purpose: service)"),
        ("What is the total of the km of Ben?", "42 (sum: km; 3 rows; Driver: Ben)"),
        ("What does a delivery cost on average?", "\u00a37.64 (mean: Cost (\u00a3); 4 rows; Purpose: delivery)"),
    ],
)
def test_rows_are_counted_added_up_and_averaged(question, result):
    assert result_of_rows(question, ROWS, "trips_2025.csv")[1] == result


@pytest.mark.parametrize(
    ("question", "result"),
    [
        ("Wie viele Belege gibt es?", "8"),
        ("Was hat der Diesel insgesamt gekostet?", "1.176,50 \u20ac (Summe: Betrag; 3 Zeilen; Art: Diesel)"),
        ("Was kostet Maut im Durchschnitt?", "9,80 \u20ac (Durchschnitt: Betrag; 3 Zeilen; Art: Maut)"),
    ],
)
def test_results_are_written_as_the_cells_are(question, result):
    assert result_of_rows(question, KOSTEN, "kosten.csv")[1] == result


@pytest.mark.parametrize(
    "question",
    [
        "How many trips did Miller make?",
        "How many trips did Ada make this week?",
        "How many trips did Ada make that were longer than those of Ben?",
        "How many trips were free of rain, wind, snow and ice?",
        "What did trip T-6 cost in total?",  # one row says it
        "What is the total weight?",
        "What did Miller's trips cost in total?",
        "Which trip had the highest total cost?",
        "How long is a trip on average?",  # no column says that
        "What does the purpose delivery mean?",
        "What is the total?",  # of km or of pounds
        "What did we spend on coffee in total?",
        "How many trips did Ada make for coffee?",
        "How many trips of Ada were not over 20 km?",
        "How many trips were over 30 km or for service?",
        "How many old trips are there?",
        "How many trips were there per day?",
        "How many more trips are there?",
        "How many trips were for delivery and how many for service?",
        "What do we spend a year on average?",
        "What did trips cost each day in total?",
        "What did we spend on payroll in total?",
        "What did we spend on chargers in total?",
        "What do we owe in total?",
        "What is the total number of trips that cost money?",
        "What are the km worth in total?",
    ],
)
def test_a_question_whose_words_are_not_all_understood_has_no_result(question):
    assert result_of_rows(question, ROWS, "trips_2025.csv") == ([], "")


def test_a_table_with_its_own_total_or_with_gaps_is_not_added_up():
    total = [("Trip", "Total"), *((name, "") for name, _ in ROWS[0][1:5]), ("Cost (\u00a3)", "1,402.50")]
    question = "What did all trips cost in total?"
    assert result_of_rows(question, [*ROWS, total], "trips.csv") == ([], "")
    of_ada = result_of_rows("What did the trips of Ada cost in total?", [*ROWS, total], "trips.csv")
    assert of_ada == ([0, 2, 4], "\u00a3121.45 (sum: Cost (\u00a3); 3 rows; Driver: Ada)")
    unknown = [("Trip", "T-9"), *ROWS[0][1:5], ("Cost (\u00a3)", "open")]
    assert result_of_rows(question, [*ROWS, unknown], "trips.csv") == ([], "")
    assert result_of_rows(question, ROWS[:5], "trips.csv") == ([], "")
    assert result_of_rows(question, [], "trips.csv") == ([], "")


@pytest.mark.parametrize(
    "label", ["Totals", "Gesamtsumme", "Gesamtergebnis", "Endsumme", "Fuel Total", "K\u00f6ln Ergebnis"]
)
def test_a_row_with_a_total_is_neither_counted_nor_added(label):
    rows = [*ROWS, [("Trip", label), *ROWS[0][1:]]]
    assert result_of_rows("How many trips are there?", rows, "trips.csv")[1] == "8"
    assert result_of_rows("What did all trips cost in total?", rows, "trips.csv") == ([], "")


def test_a_name_is_no_total():
    rows = [[("Article", name)] for name in ("All-purpose cleaner", "Test result", "Totalizer")]
    assert result_of_rows("How many articles are there?", rows, "stock.csv")[1] == "3"


def test_what_is_paid_is_a_state_where_a_column_says_so():
    def table(header, paid):
        return [[("Bill", f"B-{n}"), (header, paid[n % 2]), ("Amount", "5"), ("Room", "203")] for n in range(10)]

    states = table("Paid", ("yes", "no"))
    assert result_of_rows("What is the total amount paid?", states, "bills.csv")[1].startswith("25 (")
    assert result_of_rows("How much did we pay in total?", states, "bills.csv") == ([], "")
    assert result_of_rows("How much did we pay in total?", table("Status", ("paid", "open")), "bills.csv") == ([], "")
    assert result_of_rows("How much did we pay in total?", table("Kind", ("x", "y")), "bills.csv")[1].startswith("50 (")


def test_a_number_that_names_rows_is_not_added_up():
    rows = [[("Booking", f"B-{n}"), ("Room", room), ("Price", "5")] for n, room in enumerate(["203", "101"] * 5)]
    assert result_of_rows("What is the total of room 203?", rows, "bookings.csv")[1].startswith("25 (sum: Price")
    assert result_of_rows("What do rooms cost on average?", rows, "bookings.csv") == ([], "")
    assert result_of_rows("What is the total price of room 203?", rows, "bookings.csv")[1].startswith("25 (")


def test_some_rows_of_a_small_table_are_added_up_but_not_all():
    assert result_of_rows("What did Ben cost in total?", ROWS[:4], "") == (
        [1, 3],
        "\u00a39.05 (sum: Cost (\u00a3); 2 rows; Driver: Ben)",
    )
    assert result_of_rows("What did it cost in total?", ROWS[:4], "") == ([], "")


def test_a_row_without_a_name_may_be_a_total():
    rows = [*ROWS, [("Purpose", ""), ("Cost (\u00a3)", "1,402.50")]]
    assert result_of_rows("What did all trips cost in total?", rows, "trips.csv") == ([], "")
    assert result_of_rows("How many trips are there?", rows, "trips.csv") == ([], "")


def test_amounts_in_several_units_or_currencies_are_not_added_up():
    def table(values, header="Cost", more=()):
        return [[("Part", f"P-{n}"), (header, value), *more[n - 1 : n]] for n, value in enumerate(values, start=1)]

    euros_and_dollars = [("Currency", "EUR")] * 7 + [("Currency", "USD")]
    for question, rows, start in (
        ("What do the parts cost in total?", table(["\u20ac5"] * 8), "40 \u20ac"),
        ("What do the parts cost in total?", table(["\u20ac5"] * 7 + ["$5"]), ""),
        ("What do the parts cost in total?", table(["5"] * 8, more=euros_and_dollars), ""),
        ("What is the total weight?", table(["5 kg"] * 8, "Weight"), "40 kg"),
        ("What is the total weight?", table(["5 kg"] * 7 + ["5 g"], "Weight"), ""),
    ):
        assert result_of_rows(question, rows, "parts.csv")[1].partition(" (")[0] == start


@pytest.mark.parametrize(
    ("cells", "result"),
    [
        (["0.125"] * 8, "1.000 (sum: Share; 8 rows)"),
        (["1.125"] * 8, "9.000 (sum: Share; 8 rows)"),
        (["0.125"] * 7 + ["0.5"], "1.375 (sum: Share; 8 rows)"),
        (["0.0025"] * 8, "0.0200 (sum: Share; 8 rows)"),
        (["0.125", "1.250"] * 4, ""),
        (["1,25,000"] * 8, ""),
        (["1 day"] + ["2 days"] * 7, "15 days (sum: Share; 8 rows)"),
        (["1200"] * 8, "9600 (sum: Share; 8 rows)"),
        (["1.125"] * 7 + ["0.5"], ""),  # is it a thousand?
        (["1,250.50"] * 8, "10,004.00 (sum: Share; 8 rows)"),
        (["12 %"] * 8, ""),
    ],
)
def test_numbers_that_cannot_be_read_and_percentages_are_not_added_up(cells, result):
    rows = [[("Part", f"P-{number}"), ("Share", cell)] for number, cell in enumerate(cells)]
    assert result_of_rows("What is the total share?", rows, "parts.csv")[1] == result


def test_a_mean_is_rounded_half_up():
    rows = [[("Part", f"P-{number}"), ("Pins", pins)] for number, pins in enumerate(["2"] * 7 + ["3"])]
    assert result_of_rows("How many pins on average?", rows, "parts.csv") == ([], "")
    assert result_of_rows("What is the average of the pins?", rows, "parts.csv")[1] == "2.13 (mean: Pins; 8 rows)"


def test_rows_are_counted_only_if_each_is_another_one_and_subtotals_are_none():
    rows = [[("Driver", driver), ("Place", place)] for driver, place in (("Ada", "x"), ("Ben", "y"), ("Ada", "y"))]
    assert result_of_rows("How many drivers are there?", rows, "trips.csv") == ([], "")  # two, in three rows
    assert result_of_rows("How many drivers are there?", rows[:2], "trips.csv")[1] == "2"
    subtotal = [("Driver", "Subtotal"), ("Place", "")]
    assert result_of_rows("How many drivers are there?", [*rows[:2], subtotal], "trips.csv")[1] == "2"


@pytest.mark.parametrize(
    ("question", "result"),
    [
        ("How many employees are there?", "4"),
        ("How many people work in IT?", "2 (Department: IT)"),
        ("How many engineers do we have?", "1 (Role: Engineer)"),
        ("How many employees started after 2020?", "3 (Start: after 2020)"),
        ("How many departments are there?", "2 different (Department: IT, HR)"),
        ("How many departments have clerks?", "2 different (Department: IT, HR; Role: Clerk)"),
        ("How many employees work in Rome?", ""),
        ("How many roles of engineers are there?", ""),
    ],
)
def test_people_with_names_are_counted(question, result):
    rows = [
        [("Name", name), ("Department", department), ("Role", role), ("Start", f"{year}-03-01")]
        for name, department, role, year in (
            ("Ann", "IT", "Engineer", 2019),
            ("Ben", "IT", "Clerk", 2021),
            ("Cem", "HR", "Clerk", 2022),
            ("Dora", "HR", "Manager", 2023),
        )
    ]
    assert result_of_rows(question, rows, "staff.csv")[1] == result


@pytest.mark.parametrize(
    ("question", "result"),
    [
        ("How many nights were booked?", "9 (sum: Nights; 3 rows)"),
        ("How many nights did Smith book?", "7 (sum: Nights; 2 rows; Guest: Smith)"),
        ("How many rooms are there?", ""),  # a number that names them is not added up
        ("How many guests are there?", "2 different (Guest: Smith, Jones)"),
        ("How many extras were booked?", ""),  # several in a cell
        ("How many bookings are there?", "3"),
        ("Are there any bookings of Smith?", "Yes, 2 (Guest: Smith)"),
        ("Gibt es noch Bookings von Smith?", "Ja, 2 (Guest: Smith)"),
        ("Are there any bookings of Miller?", ""),
        ("Are there any bookings?", ""),
    ],
)
def test_values_of_a_column_are_counted_and_quantities_added_up(question, result):
    header = ("Booking", "Guest", "Room", "Nights", "Extras")
    cells = (
        ("B-1", "Smith", "101", "3", "bike, towel"),
        ("B-2", "Jones", "101", "2", ""),
        ("B-3", "Smith", "7", "4", "bike"),
    )
    rows = [list(zip(header, row, strict=True)) for row in cells]
    assert result_of_rows(question, rows, "bookings.csv")[1] == result


def table(header, *lines):
    names = header.split("; ")
    return [list(zip(names, line.split("; "), strict=True)) for line in lines]


TICKETS = table(
    "Ticket; Agent; Country; Grade; Hours; Category",
    "T-1; Will; US; A; 2; Work",
    "T-2; Mia; CA; B; 3; Home",
    "T-3; Will; US; B; 4; Home",
)


@pytest.mark.parametrize(
    "question",
    [
        "How many tickets does Will have?",  # names that are function words
        "How many tickets are there in the US?",
        "How many tickets have an A?",
        "How many tickets do I have?",
        "How many tickets can I open?",
        "How many hours do I have to work?",
        "How many hours are in a ticket?",
        "How many hours did we work in total?",
        "How many ticketing systems are there?",
        "Are there as many tickets of Mia as of Will?",
        "How many tickets are not B or C?",
        "Is the average number of hours over 2?",
        "Have all tickets of Mia been closed?",
    ],
)
def test_no_result_for_what_the_table_may_not_say(question):
    assert result_of_rows(question, TICKETS, "tickets.csv") == ([], "")


def test_rows_are_called_by_forms_of_their_name():
    rows = table("Shipment; Status", "S-1; sent", "S-2; lost")
    assert result_of_rows("How many shipments are there?", rows, "log.csv")[1] == "2"
    assert result_of_rows("How many ships are there?", rows, "log.csv") == ([], "")
    assert result_of_rows("How many shipments have been shipped?", rows, "log.csv") == ([], "")
    cases = table("Fall; Ort", "F-1; Bonn", "F-2; Ulm")
    assert result_of_rows("Wie viele F\u00e4lle gibt es?", cases, "faelle.csv")[1] == "2"


def test_rows_with_names_are_people_only_if_the_document_says_so():
    rows = table("Name; City", "Lux; Rome", "Max; Oslo")
    assert result_of_rows("How many people are in Rome?", rows, "staff.csv")[1] == "1 (City: Rome)"
    assert result_of_rows("How many people are in Rome?", rows, "shops.csv") == ([], "")
    assert result_of_rows("How many shops are in Rome?", rows, "shops.csv")[1] == "1 (City: Rome)"


def test_prices_of_one_piece_balances_and_mixed_signs_are_not_added_up():
    def result(question, header, *amounts):
        rows = [
            [("Entry", f"E-{n}"), *zip(header.split("; "), a.split("; "), strict=True)] for n, a in enumerate(amounts)
        ]
        return result_of_rows(question, rows, "entries.csv")[1]

    question = "What did all entries cost in total?"
    assert result(question, "Quantity; Price", *["2; 5"] * 8) == ""
    assert result(question, "Unit price", *["5"] * 8) == ""
    assert result("What is the total balance?", "Balance", *["5"] * 8) == ""
    assert result("What did we spend in total?", "Amount", *["5", "-2"] * 4) == ""
    assert result("What did we spend in total?", "Amount", *["5"] * 7, "-2").startswith("33 (")


def test_rows_are_listed_only_if_every_word_is_understood():
    rows = table("Person; City; Joined", "Ann; Rome; 2024-01-05", "Ben; Rome; 2023-05-06", "Cem; Oslo; 2023-07-08")
    for question, expected in (
        ("Which persons are in Rome?", [0, 1]),
        ("Which persons in Rome joined in 2023?", [1]),
        ("Which persons in Rome speak French?", []),
        ("Which persons retired in 2023?", []),
        ("Which persons in Rome paid over 90 in total?", []),
        ("Which persons are in Rome or Oslo?", []),  # all of them
    ):
        assert listed_by_conditions(question, rows, "club.csv") == expected


def test_a_word_of_the_documents_name_is_a_condition_if_a_cell_has_it():
    rows = [[("Item", f"I-{n}"), ("Kind", kind), ("Cost", "5")] for n, kind in enumerate(["office lamps", "fuel"] * 5)]
    assert result_of_rows("What did we spend on office in total?", rows, "office_2025.csv") == ([], "")
    assert result_of_rows("What did we spend on fuel in total?", rows, "office_2025.csv")[1].startswith("25 (")


DELIVERIES = table(
    "delivery_no; date; customer; region; product; quantity; status",
    "D-1; 2025-04-30; Fern Ltd; West; Hose 30 m; 40; delivered",
    "D-2; 2025-05-02; Oak Farm; South; Soil 10 kg; 25; delayed",
    "D-3; 2025-05-09; Oak Farm; South; Hose 30 m; 10; delivered",
    "D-4; 2025-05-20; Fern Ltd; West; Soil 10 kg; 5; cancelled",
    "D-5; 2025-06-03; Oak Farm; South; Hose 30 m; 8; delivered",
    "D-6; 2025-06-12; Ash & Co; East; Soil 10 kg; 41; delayed",
    "D-7; 2025-06-20; Elm Shop; East; Soil 10 kg; 6; delivered",
    "D-8; 2025-06-21; Oak Farm; South; Rake; 9; delivered",
)


@pytest.mark.parametrize(
    ("question", "result"),
    [
        ("How many deliveries were delayed?", "2 (status: delayed)"),
        ("How many deliveries were delivered?", "5 (status: delivered)"),
        ("number of deliveries in may 2025", "3 (date: may 2025)"),
        ("What is the number of cancelled deliveries?", "1 (status: cancelled)"),
        ("total quantity of Soil 10 kg over all deliveries", "77 (sum: quantity; 4 rows; product: Soil 10 kg)"),
        ("How many items did Oak Farm order, whatever the status?", "52 (sum: quantity; 4 rows; customer: Oak Farm)"),
        ("Which region took the largest total quantity?", "South (sum: quantity 52; 4 rows)"),
        ("Which region had the lowest quantity in total?", "West (sum: quantity 45; 2 rows)"),
        ("Which customer had the most deliveries?", "Oak Farm (4 rows)"),
        ("Which customer had the most deliveries in June?", "Oak Farm (2 rows; date: June)"),
        ("Which customer had the fewest deliveries?", ""),  # two had one
        ("Which customer had the most late deliveries?", ""),  # 'late' may be a condition
        ("Which region had the largest quantity?", ""),  # in one delivery, or in all?
    ],
)
def test_deliveries_are_no_delivered_ones_and_groups_are_compared(question, result):
    assert result_of_rows(question, DELIVERIES, "deliveries.csv")[1] == result


def test_the_rows_of_the_largest_group_are_returned():
    assert result_of_rows("Which region took the largest total quantity?", DELIVERIES, "")[0] == [1, 2, 4, 7]


def test_numbers_are_added_up_where_only_the_rows_that_are_meant_have_plain_ones():
    rows = table(
        "Payment; Amount; Due",
        "First rent; \u00a3915.00; 29 August 2025",
        "Deposit; \u00a31,365.00; 29 August 2025",
        "Rent; \u00a31,185.00 a month; every month",
        "Parking; \u00a335.00 a month; every month",
        "Keys; \u00a342.00 a set; on demand",
    )
    result = "\u00a32,280.00 (sum: Amount; 2 rows; Due: 29 August 2025)"
    assert result_of_rows("What is the total of the payments due on 29 August 2025?", rows, "")[1] == result


@pytest.mark.parametrize(
    ("question", "result"),
    [
        ("How much money is still open for Penmoor?", "140.50 (sum: Amount; 2 rows; Place: Penmoor; Status: open)"),
        ("How much has been paid for Ashby?", ""),  # in one row, which answers
        ("How much is open for late bookings?", ""),  # 'late' may be a condition
    ],
)
def test_how_much_money_is_the_sum_of_several_rows(question, result):
    rows = table(
        "Booking; Place; Amount; Status",
        "B-1; Penmoor; 99.00; open",
        "B-2; Penmoor; 55.00; paid",
        "B-3; Ashby; 68.00; paid",
        "B-4; Penmoor; 41.50; open",
        "B-5; Ashby; 12.00; open",
    )
    assert asks_for_result(question)
    assert result_of_rows(question, rows, "bookings.csv")[1] == result


def test_what_the_largest_group_has_is_counted_or_added_up_as_the_question_says():
    rows = table(
        "Date; Customer; Status; Quantity",
        "2025-01-02; Alder; late; 9",
        "2025-01-03; Alder; sent; 2",
        "2025-01-04; Alder; sent; 3",
        "2025-01-05; Birch; late; 20",
        "2025-01-06; Birch; sent; 41",
    )

    def result(question):
        return result_of_rows(question, rows, "orders.csv")[1]

    assert result("Which customer placed the most orders?") == "Alder (3 rows)"
    assert result("Which customer had the highest quantity in total?") == "Birch (sum: Quantity 61; 2 rows)"
    assert result("Which customer has the most visits?") == ""
    assert result("Which customer had the most late orders?") == ""  # both had one


STATEMENT = table(
    "Date; Merchant; Amount EUR; Holder; Paid by",
    "2025-01-03; Circle Fuel; 71.20; Ann; app",
    "2025-02-04; Boylan Pharmacy; 12.30; Ben; app",
    "2025-02-10; Boylan Pharmacy; 27.85; Ann; debit",
    "2025-02-11; Lidl Cork; 10.00; Ann; debit",
    "2025-03-12; Lidl Douglas; 20.00; Ben; debit",
    "2025-03-20; Card fee; 1.50; Ann; debit",
)


@pytest.mark.parametrize(
    ("question", "result"),
    [
        ("How much did we spend at the pharmacy?", "40.15 \u20ac (sum: Amount EUR; 2 rows; Merchant: Boylan Pharmacy)"),
        ("How much did we spend at lidl?", "30.00 \u20ac (sum: Amount EUR; 2 rows; Merchant: Lidl Cork, Lidl Douglas)"),
        ("How much have we paid Boylan Pharmacy?", "40.15 \u20ac (sum: Amount EUR; 2 rows; Merchant: Boylan Pharmacy)"),
        ("How many lines of the card statement are Ann's?", "4 (Holder: Ann)"),
        ("How many lines of the card are Ann's?", ""),  # a cell has 'card'
        ("How much did we spend at the doctor?", ""),
    ],
)
def test_a_statement_is_added_up_by_place_and_its_lines_are_counted(question, result):
    assert asks_for_result(question)
    assert result_of_rows(question, STATEMENT, "card_statement_2025.csv")[1] == result


@pytest.mark.parametrize(
    ("header", "values"),
    [
        ("Status", ["Paid by card", "Open", "Paid by transfer", "Overdue"]),
        ("Paid by", ["card", "\u2013", "transfer", "not yet"]),
        ("To be paid by", ["May", "June", "July", "May"]),
    ],
)
def test_what_may_be_unpaid_is_not_added_up_as_paid(header, values):
    rows = table(f"No; Amount EUR; {header}", *(f"R-{n}; {10 * n}; {value}" for n, value in enumerate(values, 1)))
    assert result_of_rows("How much was paid in total?", rows, "")[1] == ""


@pytest.mark.parametrize(
    ("question", "headers"),
    [
        ("How many transactions were there in March?", "Month; Card transactions; Refunds"),
        ("How many lines are stopped?", "Machine; Production line; Status"),
        ("How many lines does M-1 have?", "Machine; Product; Status"),
    ],
)
def test_lines_of_something_else_are_not_counted(question, headers):
    rows = table(headers, "M-1; 210; stopped", "March; 90; stopped", "M-3; 12; running")
    assert result_of_rows(question, rows, "list")[1] == ""


def test_places_of_several_kinds_are_not_joined():
    rows = table(
        "Name; Location; Salary",
        "Ann; Head Office; 40",
        "Ben; Home Office; 50",
        "Cem; Head Office; 60",
        "Eva; Office Park; 1",
    )
    for question in ("How many people work at the office?", "What is the average salary at home?"):
        assert result_of_rows(question, rows, "staff")[1] == ""


def test_the_name_of_a_document_is_no_condition_only_where_the_question_names_the_document():
    rows = table("Item; Kind; Amount", "Paint white; Paint; 20", "Brush; Tool; 30", "Tape; Tool; 1")
    assert result_of_rows("How much paint stock is there in total?", rows, "paint stock list")[1] == ""
