"""A section is compared with its counterpart in another edition, which its heading names."""

import pytest

from engine.prompt.section_versions import compare_sections
from engine.request import ChatTurn, Request
from tests.engine.prompt.test_versions import Library, texts_of

OLD = """# Rules 2022

## 1. Rent in 2022

Rent is due in May. A plot is 48 euros.

## Sheds and greenhouses (2022 edition)

A shed may have 4 metres.

### Colours

Green.

## Bonfires

From November to March.

## Water

From April."""
NEW = (
    OLD.replace("2022", "2025").replace("48", "57").replace("4 metres", "6 metres").replace("Green", "Any green")
).replace("From November to March.", "Never on Sundays.")
LIBRARY = {"plot_rules_2022.md": OLD, "plot_rules_2025.md": NEW, "notes.md": "# Rent\n\nNone."}


def compare(question, texts=None, size=60, **fields):
    found = compare_sections(Library(texts or LIBRARY, size), Request(question, **fields))
    return found and texts_of(found.changes)


RENT = [("A plot is 48 euros.", "A plot is 57 euros.")]


@pytest.mark.parametrize("size", [60, 1000])
@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What changed in the section on rent between the two editions?", RENT),
        ("What changed in the rent section of the plot rules from 2022 to 2025?", RENT),
        ("How do plot_rules_2022.md and plot_rules_2025.md differ in the section Rent?", RENT),
        (
            "What changed in sheds and greenhouses?",
            [("A shed may have 4 metres.", "A shed may have 6 metres."), ("Green.", "Any green.")],
        ),
        (
            "What changed for sheds?",  # the heading has more words
            [("A shed may have 4 metres.", "A shed may have 6 metres."), ("Green.", "Any green.")],
        ),
        ("How did the size of sheds change?", None),
        ("What changed in the section Bonfires?", [("From November to March.", "Never on Sundays.")]),
        ("What changed in the section Water?", None),  # nothing
        ("What changed in the section Fences?", None),
        ("What changed about the rent for sheds?", None),  # no heading has just these words
        ("What does the section Rent say?", None),
        ("What changed?", None),
    ],
)
def test_only_the_section_is_compared_and_what_is_the_same_is_left_out(question, expected, size):
    assert compare(question, size=size) == expected


def test_the_years_of_the_question_choose_among_editions_and_the_newest_two_are_compared_without():
    texts = LIBRARY | {"plot_rules_2019.md": OLD.replace("48", "40")}
    assert compare("What changed in the section Rent?", texts) == RENT
    assert compare("What changed in the section Rent from 2019 to 2022?", texts) == [
        ("A plot is 40 euros.", "A plot is 48 euros.")
    ]


def test_editions_are_named_by_versions_too():
    versions = {"plot_rules_v2.1.md": OLD, "plot_rules_v3.0.md": NEW, "plot_rules_v1.md": OLD.replace("48", "40")}
    assert compare("What changed for rent between version 2.1 and version 3.0?", versions) == RENT
    assert compare("What changed for rent from v1 to v3?", versions) == [("A plot is 40 euros.", "A plot is 57 euros.")]


def test_two_pairs_with_the_section_are_told_apart_by_their_names():
    texts = LIBRARY | {f"boat_rules_{year}.md": f"# Boats\n\n## Rent\n\nA boat is {year}." for year in (2022, 2025)}
    assert compare("What changed in the section Rent?", texts) is None
    assert compare("What changed in the section Rent of the plot rules?", texts) == RENT


def test_a_follow_up_or_a_single_document_is_left_to_the_search():
    question = "What changed in its section Rent?"
    assert compare(question, history=(ChatTurn("Is the old lease long?", "Yes."),)) is None
    assert compare("What changed in the section Rent?", documents=("notes.md",)) is None
    assert compare("What changed in the section Rent?", {"plot_rules_2022.md": OLD}) is None


def test_documents_without_words_in_their_names_are_not_the_ones_named():
    others = {"_.md": "# Rent\n\nNone.", "__.md": "# Rent\n\nSome."}
    question = "What changed in the section on rent between 2022 and 2025?"
    expected = compare(question)
    assert expected and compare(question, LIBRARY | others) == expected


EDITIONS = {
    "plot_rules_2022.md": OLD + "\n\n## 6. Dogs\n\nOn a lead.",
    "plot_rules_2025.md": NEW.replace("## Water", "## 4. Water") + "\n\n## 7. Drones in 2025\n\nNever.",
}


@pytest.mark.parametrize("size", [60, 1000])
@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which section is new in the 2025 rules and which one from 2022 is gone?", [("Dogs",), ("Drones in 2025",)]),
        ("Are there any new sections in the plot rules?", [("Dogs",), ("Drones in 2025",)]),
        ("Welche Abschnitte sind weggefallen?", [("Dogs",), ("Drones in 2025",)]),
        ("Which section says what new members pay?", None),
        ("Which sections are there?", None),
    ],
)
def test_sections_of_one_edition_only_are_found_by_their_headings(question, expected, size):
    assert compare(question, EDITIONS, size) == expected


def test_editions_with_the_same_sections_or_without_any_have_none_of_their_own():
    assert compare("Which sections are new?") is None
    assert (
        compare("Which sections are new?", {"rules_2022.md": "# Rules\n\nNo.", "rules_2025.md": "# Rules\n\nYes."})
        is None
    )
