"""Questions about what is new in an edition, or no longer in it, and the counterparts of passages."""

import pytest

from engine.prompt.edition_changes import compare_editions, with_counterparts
from engine.request import ChatTurn, Request
from store.types import Hit
from tests.engine.prompt.test_versions import Library, texts_of

OLD = """# Travel rules

Trains are booked by the office. Keep all tickets for a year.

Hotels cost up to 90 euros a night in all towns.

Fax machines may be used. Taxis are paid after ten in the evening."""
NEW = OLD.replace("90", "120").replace("Fax machines may be used. ", "") + "\n\nBikes may be leased."
LIBRARY = {"Travel policy 2023.md": OLD, "Travel_Policy_2025.md": NEW, "notes.md": "# Rent\n\nNone."}
FAX, BIKES = ("Fax machines may be used.",), ("Bikes may be leased.",)
HOTELS = ("Hotels cost up to 90 euros a night in all towns.", "Hotels cost up to 120 euros a night in all towns.")


def compare(question, texts=None, **fields):
    found = compare_editions(Library(texts or LIBRARY, 1000), Request(question, **fields))
    return found and texts_of(found.changes)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is new in the 2025 travel policy?", [BIKES, HOTELS]),
        ("Whats new in the travel policy?", [BIKES, HOTELS]),
        ("What was added to the travel policy in 2025?", [BIKES]),
        ("Which rules of the travel policy were dropped?", [FAX]),
        ("What is no longer allowed under the travel policy?", [FAX]),
        ("What is not allowed any more under the travel policy?", [FAX]),
        ("Was ist in der Travel Policy neu hinzugekommen?", [BIKES]),
        ("What is new in the travel policy about hotels?", [HOTELS]),
        ("What are the main changes in the travel policy from 2023 to 2025?", [HOTELS, FAX, BIKES]),
        ("How has the travel policy changed?", [HOTELS, FAX, BIKES]),
        ("How do the old and the new policy about travel differ?", [HOTELS, FAX, BIKES]),
        ("How has the travel policy changed for hotels?", None),  # left to the search
        ("Which agency was introduced with the travel policy?", None),
        ("When was the travel policy introduced?", None),
        ("What happens if I no longer need the permit under the travel policy?", None),
        ("Which trips may be no longer than five days under the travel policy?", None),
        ("What must be added to the claim under the travel policy?", None),
        ("Which rules of the travel policy were not dropped?", None),
        ("What did not change in the travel policy from 2023 to 2025?", None),
        ("Are faxes no longer allowed under the travel policy?", None),
        ("What does a person new in the office get?", None),
        ("What was introduced in the travel policy 2021?", None),
    ],
)
def test_what_only_one_edition_says(question, expected):
    found = compare(question)
    assert found is None if expected is None else sorted(found) == sorted(expected)


def test_one_year_means_that_edition_and_the_one_before_it():
    own = {2021: "Faxes are free.", 2023: "Bikes may be leased.", 2025: "Flights are not paid within the country."}
    texts = {f"Travel policy {year}.md": f"{OLD}\n\n{sentence}" for year, sentence in own.items()}
    assert compare("What was added to the travel policy in 2023?", texts) == [BIKES]
    assert compare("What was added to the travel policy since 2021?", texts) == [(own[2025],)]


def test_nothing_is_compared_for_a_follow_up_or_a_whole_document():
    question = "What was added to it in the 2025 policy?"
    assert compare(question, history=(ChatTurn("What do trains cost?", "Nothing."),)) is None
    assert compare("What was added to the travel policy?", whole_document=True) is None


def test_a_passage_is_joined_by_the_same_part_of_the_other_edition():
    texts = {f"{name} {year}.md": "" for name, year in (("Travel policy", 2023), ("Travel policy", 2025))}
    for year, name in zip((90, 120), texts, strict=True):
        texts[name] = f"{'Trains are booked early by all. ' * 8}{f'Hotels cost {year} a night in towns. ' * 8}"
    library = Library(texts | {"notes.md": "Nothing at all."}, 280)
    (old, new), notes = list(texts), library.chunks("notes.md")[0]
    found = library.chunks(old)[1]
    request = Request("How have hotels changed from 2023 to 2025?", passages=2)
    hits = [Hit(chunk, 1.0, 1.0, True) for chunk in (found, notes)]
    assert [hit.chunk for hit in with_counterparts(library, request, hits)] == [found, library.chunks(new)[1], notes]
    assert with_counterparts(library, request, hits[1:]) == hits[1:]
    two = Library({"Pool.md": texts[old], "Parking.md": texts[new]}, 280)
    hits = [Hit(two.chunks("Pool.md")[1], 1.0, 1.0, True)]
    assert with_counterparts(two, request, hits) == hits
