"""Sentences of a text."""

import pytest

from engine.text import split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Checked at 10.15 a.m. by Corinne. Signed.", ["Checked at 10.15 a.m. by Corinne.", " Signed."]),
        ("Open until 5 p.m. Then closed.", ["Open until 5 p.m.", " Then closed."]),
        ("Bring pens, paper etc. and a cap.", ["Bring pens, paper etc. and a cap."]),
        ("Ask Ms. Vale on the 12. Juli. Danke.", ["Ask Ms. Vale on the 12. Juli.", " Danke."]),
        ("i am late. i will be there.", ["i am late.", " i will be there."]),
    ],
)
def test_dots_inside_sentences_do_not_end_them(text, sentences):
    assert split_sentences(text) == sentences
