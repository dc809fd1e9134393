"""Paragraphs whose label is what a question asks for."""

import pytest

from engine.generation.labelled import find_labelled
from engine.generation.section import PARTIAL_CONFIDENCE
from tests.engine.generation.test_section import chunks, section

MINUTES = """# Minutes of 5 March

**Date:** 5 March
**Present:** Ann Osei, Ben Kraus
**Apologies:** Cem Aydin

The pump is old.

**Decision D1:** The fee stays the same. It is reviewed in June.

Long talk about the roof. Note: it leaks.

**Decision D2:** The roof is repaired.

Present: the alarm must be checked daily."""
PRESENT, APOLOGIES = ["**Present:** Ann Osei, Ben Kraus"], ["**Apologies:** Cem Aydin"]
DECISIONS = [
    "**Decision D1:** The fee stays the same. It is reviewed in June.",
    "**Decision D2:** The roof is repaired.",
]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who was at the meeting?", PRESENT),
        ("who attended the committee meeting on 5 March", PRESENT),
        ("Who was present?", PRESENT),
        ("Wer war bei der Sitzung dabei?", PRESENT),
        ("Who was absent?", APOLOGIES),
        ("Wer war nicht anwesend?", APOLOGIES),
        ("What were the main decisions?", DECISIONS),
        ("I was ill on 5 March, what decisions were taken?", DECISIONS),
        ("Which decisions were taken on the fee?", []),
        ("Who was in charge of the budget?", []),
        ("Who was at fault for the delay?", []),
        ("Wer hat die Teile bestellt?", []),
        ("Which notes were taken?", []),  # within a paragraph, and once
    ],
)
def test_labels_answer_questions_about_all_of_them(question, expected):
    found, confidence = section(question, *chunks("minutes.md", MINUTES), find=find_labelled)
    assert [text.strip() for text in found] == expected
    assert confidence == PARTIAL_CONFIDENCE or not found  # other passages may have more of them


def test_of_two_meetings_it_is_unclear_which_is_meant():
    second = "Present: Dan Weber, Eve Lang"
    assert section("Who was present?", *chunks("minutes.md", f"{MINUTES}\n\n{second}"), find=find_labelled)[0] == []
