"""What changed between two versions of a sentence or table row."""

import pytest

from engine.generation.changes import describe_change


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("Appeal within 21 days of it.", "Appeal within 14 days of it.", "21 days → 14 days"),
        ("Report it within 24 hours.", "Report it within 4 hours, at any time.", "24 hours → 4 hours"),
        ("Sheds up to 4 square metres.", "Sheds up to 6 square metres.", "4 square metres → 6 square metres"),
        ("Notice is six weeks.", "Notice is two weeks.", "six weeks → two weeks"),
        ("It closes on Monday at noon.", "It closes on Tuesday at noon.", "Monday → Tuesday"),
        ("It costs \u00a330 a year.", "It costs \u00a336 a year.", "\u00a330 → \u00a336"),
        ("It costs 30 per year.", "It costs 36 per year.", "30 → 36"),
        ("It costs 30.", "It costs 36.", "30 → 36"),
        ("Rooms are free.", "Rooms are free.", ""),
        ("Appeal within 21 days.", "The office opens at nine.", ""),
        ("| Item: Chair | Limit: £180 | By: June |", "| Item: Chair | Limit: £220 | By: June |", "Limit: £180 → £220"),
        ("| Item: Chair | Limit: £180 |", "| Item: Lamp | Limit: £220 |", ""),
        ("| Item: Chair | Limit: £180 |", "| Item: Chair | Renewed: never |", ""),
    ],
)
def test_changed_words_are_named_with_their_unit_or_header(old, new, expected):
    assert describe_change(old, new) == expected
