"""The line above a table names its rows; it is no answer alone."""

import pytest

from engine.generation.ranking import is_caption
from tests.support.evidence import Encoder, Scorer, evidence, texts_of

ROWS = "| Zone: UK | Days: 2 |\n| Zone: EU | Days: 4 |"
TABLE = f"# Shop\n\nDelivery times 2025\n\n{ROWS}\n\nParcels are insured."


def test_a_caption_is_quoted_with_its_table():
    for question in ("Is there anything about delivery times?", "What are the delivery times in 2025?"):
        quoted = texts_of(evidence(question, Scorer("Delivery times 2025"), TABLE)._announced())
        assert quoted == ["Delivery times 2025", *ROWS.split("\n")]
    assert evidence("What is insured?", Scorer("insured"), TABLE)._announced() == []


def test_a_row_is_found_by_the_caption_of_its_table_and_comes_before_it():
    question = "How many days does a delivery to the EU take in 2025?"
    others = TABLE.replace("Delivery times 2025", "Opening hours").replace("Days: 4", "Days: 7")
    for texts in ((TABLE, others), (others, TABLE)):
        found = evidence(question, Scorer("2025", "4", "7"), *texts)
        assert found._ranker.text(found._ranked[0].unit) == "| Zone: EU | Days: 4 |"


def test_a_row_is_embedded_below_the_caption_of_its_table():
    found = evidence("Delivery?", Scorer("4"), TABLE, encoder=Encoder("Delivery"))
    similarity = {found._ranker.text(each.unit): each.similarity for each in found._ranked}
    assert similarity["| Zone: EU | Days: 4 |"] > 0.9 > 0.1 > similarity["Parcels are insured."]


def test_a_caption_comes_after_a_row_that_is_nearly_as_likely():
    found = evidence("When are the delivery times?", Scorer("Delivery times 2025", "4"), TABLE)
    assert found._ranker.text(found._ranked[0].unit) == "| Zone: EU | Days: 4 |"


@pytest.mark.parametrize("text", ["Delivery times 2025", "**Prices**", "Table 3: Prices per night", "We offer:"])
def test_titles_of_tables_are_captions(text):
    assert is_caption(text)


@pytest.mark.parametrize("text", ["We are closed on Mondays.", "Acme Ltd, 12 High Street", "x" * 201])
def test_sentences_and_lines_with_numbers_are_no_captions(text):
    assert not is_caption(text)
