"""Misspelled words of a question become those of the passages, and no others."""

import pytest

from engine.prompt.spelling import corrected

PASSAGE = "Programme P6 Night uses 10.4 litres. Cancel it until 31 May; the Tenants keep the deposit of the contents."
KNOWN = {"which", "contest", "water"}


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("how much water does the nigth programme use?", "how much water does the night programme use?"),
        ("Until when can I cancle it?", "Until when can I cancel it?"),
        ("What is the depsoit?", "What is the deposit?"),
        ("Do tennants keep it?", "Do tenants keep it?"),
        ("Do tenents keep it?", "Do tenents keep it?"),  # another letter
        ("Who won the contest?", "Who won the contest?"),  # a known word, though one edit from 'content'
        ("Do the tenant's cats count?", "Do the tenant's cats count?"),  # the passage has the word in another form
        ("Is the fight of the knight over?", "Is the fight of the knight over?"),  # never the first letter
        ("Is it nite?", "Is it nite?"),  # too short
        ("wich tenants pay it?", "which tenants pay it?"),
        ("Who was Wat Tyler?", "Who was Wat Tyler?"),
        ("Was regelt die HwO?", "Was regelt die HwO?"),
        ("Is Cancle a name?", "Is Cancle a name?"),
        ("Wie lange l\u00e4uft es in der nigth?", "Wie lange l\u00e4uft es in der nigth?"),
    ],
)
def test_unknown_words_that_are_one_edit_from_a_word_of_the_passages_are_corrected(question, expected):
    assert corrected(question, [PASSAGE], KNOWN.__contains__) == expected


def test_a_word_that_may_be_two_others_stays():
    assert corrected("the panle", ["a panel"], KNOWN.__contains__) == "the panel"
    assert corrected("the panle", ["a panel, palne"], KNOWN.__contains__) == "the panle"
