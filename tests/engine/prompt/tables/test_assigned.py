"""The rows that are assigned to a person."""

import pytest

from engine.prompt.tables.assigned import assigned_rows
from tests.engine.prompt.tables.test_superlatives import table

ACTIONS = table(
    "No. | Action | Owner | Due",
    "1 | Order the gravel | Noel Brandt | 3 May",
    "2 | Apply for the grant | Lucinda Marsh | 20 June",
    "3 | Thank Lucinda | Gwen Ash | 1 July",
    "4 | Book the room | Lucinda Marsh, Noel Brandt | 30 September",
)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What does Lucinda have to do after the meeting, and by when?", [1, 3]),
        ("what does lucinda marsh still need to do", [1, 3]),
        ("What are Noel's tasks?", [0, 3]),
        ("action items for gwen", [2]),
        ("Was muss Gwen noch tun?", [2]),
        ("What is Lucinda responsible for?", [1, 3]),
        ("What does Winifred have to do?", []),  # not in the column of owners
        ("What does the room have to do with it?", []),
        ("Who has to book the room?", []),
    ],
)
def test_the_rows_of_a_person_are_found_in_the_column_of_owners(question, expected):
    assert assigned_rows(question, ACTIONS) == expected


def test_a_table_without_owners_has_no_tasks_of_anyone():
    rows = table("Name | Plot", "Lucinda | 4", "Noel | 5")
    assert assigned_rows("What does Lucinda have to do?", rows) == []


def test_what_is_done_is_left_out_if_the_question_is_what_there_still_is_to_do():
    rows = table("Task | Who | Status", "Gravel | Tim | done", "Grant | Tim | open", "Room | Kim | open")
    assert assigned_rows("What does Tim have to do?", rows) == [0, 1]
    assert assigned_rows("What does Tim still have to do?", rows) == [1]
    assert assigned_rows("Was muss Tim noch machen?", rows) == [1]
    assert assigned_rows("How many tasks of Tim are open?", rows) == []
    rows = table("Task | Who | Urgent | Done", "Gravel | Tim | yes | yes", "Grant | Tim | yes | no")
    assert assigned_rows("What does Tim still have to do?", rows) == [1]
