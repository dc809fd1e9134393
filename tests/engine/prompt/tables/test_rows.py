"""Questions about a whole table are answered from all its passages."""

from types import SimpleNamespace

import pytest

from engine.prompt.tables.rows import MAX_ROW_CHUNKS, with_deciding_rows
from engine.prompt.tables.totals import NO_ROWS
from store.types import Chunk, Hit

STATUS = ("sent", "sent", "sent", "open", "sent", "sent", "open", "sent")
AMOUNTS = (40, 35, 12, 7, 90, 20, 33, 18)


def order(number, status, amount):
    return f"| Order: B-{number} | Status: {status} | Amount: {amount} | Paid: {'yes' if number % 3 else 'no'} |"


def split(rows, name="orders"):
    """Return a chunk of each two rows, of which the first is the last one of the chunk before."""
    chunks, start = [], 0
    for index, row in enumerate(rows):
        text = "\n".join(rows[max(0, index - 1) : index + 1])
        first = start - (len(rows[index - 1]) + 1 if index else 0)
        chunks.append(Chunk(f"{name}-{index}", name, f"{name}.csv", index, None, first, first + len(text), text))
        start += len(row) + 1
    return chunks


ORDERS = split([order(number, *pair) for number, pair in enumerate(zip(STATUS, AMOUNTS, strict=True), start=1)])
NOTE = Chunk("note-0", "note", "note.txt", 0, None, 0, 12, "Orders cost.")
FINDER = SimpleNamespace(chunks=lambda document: {"orders": ORDERS, "note": [NOTE]}[document])
HITS = [Hit(chunk, 1.0, 0.5, True) for chunk in (NOTE, ORDERS[0], ORDERS[5])]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which orders are open?", ["orders-3", "orders-6", "note-0"]),
        ("Which order has the largest amount?", ["orders-4", "note-0", "orders-0"]),
        ("Which order has the smallest amount?", ["orders-3", "note-0", "orders-0"]),
        ("Which orders are not paid?", ["orders-2", "orders-5", "note-0"]),
        ("How many orders are open?", ["orders-3", "orders-6", "note-0"]),
        ("open orders", ["orders-3", "orders-6", "note-0"]),
        ("orders over there", ["note-0", "orders-0", "orders-5"]),
        ("Which orders are lost?", ["note-0", "orders-0", "orders-5"]),
        ("What does an order cost?", ["note-0", "orders-0", "orders-5"]),
    ],
)
def test_the_passages_with_the_rows_that_decide_come_first(question, expected):
    found, _ = with_deciding_rows(FINDER, question, HITS)
    assert [hit.chunk.id for hit in found] == expected
    assert all(hit in found for hit in HITS if hit.chunk.id in expected)  # with their scores


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ("How many orders are open?", 2),
        ("How many orders are there?", 8),
        ("How many orders haven't been paid?", 2),
        ("How many dollars is order B-4?", 0),
        ("How many orders are lost?", 0),
        ("How many open orders were late?", 0),  # no column says that
        ("How many orders aren't open?", 6),
        ("How many open orders have an amount over 20?", 1),
        ("What do the open orders add up to in amount?", 2),
        ("Which orders have an amount over 35?", 2),
        ("Which orders are open?", 2),
        ("What does an order cost?", 0),
    ],
)
def test_rows_of_the_whole_table_are_counted(question, count):
    assert len(with_deciding_rows(FINDER, question, HITS)[1].rows) == count


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Who works in IT?", ["Ann", "Cem"]),
        ("Who works in IT and earns over 50?", ["Cem"]),
        ("Who works in the kitchen?", []),  # no cell says that
        ("Who approves the work of IT?", []),
        ("Who has the highest salary?", []),  # one row, which is quoted
    ],
)
def test_who_is_meant_is_found_in_the_whole_table(question, names):
    people = (("Ann", "IT", 40), ("Ben", "HR", 60), ("Cem", "IT", 55))
    chunks = split([f"| Name: {name} | Department: {department} | Salary: {pay} |" for name, department, pay in people])
    finder = SimpleNamespace(chunks=lambda document: chunks)
    _, table_rows = with_deciding_rows(finder, question, [Hit(chunks[1], 1.0, 0.5, True)])
    assert [row[0][1] for row in table_rows.rows] == names


def test_a_row_with_few_cells_is_one_of_the_table_above_it():
    rows = [order(number, "open", 5) for number in range(3)]
    for between, count in (([], 4), (["A list of lost orders:"], 3)):
        chunks = split([*rows[:2], *between, "| Order: B-8 | Status: open |", *rows[2:]])
        finder = SimpleNamespace(chunks=lambda document, chunks=chunks: chunks)
        found = with_deciding_rows(finder, "How many orders are open?", [Hit(chunks[0], 1.0, 0.5, True)])
        assert len(found[1].rows) == count


def test_many_rows_are_limited_and_a_table_that_was_not_found_is_not_read():
    rows = split([order(number, "open" if number % 2 else "sent", 5) for number in range(60)])
    finder = SimpleNamespace(chunks=lambda document: rows)
    found, table_rows = with_deciding_rows(finder, "Which orders are open?", [Hit(rows[0], 1.0, 0.5, True)])
    assert (len(found), len(table_rows.rows), table_rows.result) == (MAX_ROW_CHUNKS, 30, "")
    assert with_deciding_rows(None, "Which orders are open?", HITS[:1]) == (HITS[:1], NO_ROWS)


def test_a_result_may_come_from_a_table_that_a_longer_search_finds():
    def more_hits():
        return HITS

    for question, count in (("How many orders are open?", 2), ("Which orders are open?", 0), ("the largest order", 0)):
        found, table_rows = with_deciding_rows(FINDER, question, HITS[:1], more_hits=more_hits)
        assert len(table_rows.rows) == count
        assert (found == HITS[:1]) == (count == 0)


def test_the_table_of_a_longer_search_has_to_be_about_the_question():
    rows = [f"| Name: {n} | Started: 2024-03-{n:02} | Salary: \u20ac{n}00 |" for n in range(1, 10)]
    chunks = split(rows, "staff")
    finder = SimpleNamespace(chunks=lambda document: {"staff": chunks, "note": [NOTE]}[document])
    for question, found, other in (
        ("How much did we spend in total in March?", 9, 0),
        ("What is the total salary in March?", 9, 9),
    ):
        hit = Hit(chunks[0], 1.0, 0.5, True)
        assert len(with_deciding_rows(finder, question, [hit])[1].rows) == found
        assert len(with_deciding_rows(finder, question, HITS[:1], more_hits=lambda hit=hit: [hit])[1].rows) == other
