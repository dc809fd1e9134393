"""Rating an answer, without a browser."""

import gradio as gr
import pytest

from store.errors import StoreFull
from store.types import Document
from tests.ui.test_flow import ask

DOCUMENT = Document("e" * 64, "manual.pdf", 10, 4, 8, 1.0)


@pytest.fixture
def page(app, backend):
    backend.stored_documents = [DOCUMENT]
    return app.ask


@pytest.fixture
def rated(page):
    """A function that clicks a button of the last answer to a question, and returns the line below it."""
    *_, ended = ask(page, "Which code?")
    answer, chat = ended[page.results.answer], ended[page.chat]
    return lambda rating: page.feedback.rate(answer, chat, gr.EventData(None, {"id": rating}))


def click(page, act, rating_id, **data):
    return page.feedback.change(gr.EventData(None, {"act": act, "id": rating_id, **data}))


def test_a_good_answer_is_saved_with_question_and_passages_until_it_is_withdrawn(page, rated, backend):
    assert "Saved as a good answer" in rated("good")
    (rating,) = backend.feedback.ratings()
    assert rating.is_good and rating.question == "Which code?" and rating.method == "full"
    assert rating.answer == "The code is 5730264 . Shifts are swapped with form HL-118 , handed in before noon."
    assert [passage.document_id for passage in rating.passages] == [DOCUMENT.id] * 3
    assert all(len(passage.text) > 50 for passage in rating.passages)
    assert click(page, "undo", rating.id) == "" and backend.feedback.ratings() == []
    assert click(page, "undo", rating.id) == ""


def test_the_right_answer_can_be_added_to_a_bad_one(page, rated, backend):
    assert "What would have been right?" in rated("bad")
    (rating,) = backend.feedback.ratings()
    assert not rating.is_good and rating.expected == ""
    line = click(page, "expected", rating.id, text=" 5730264 <b> ")
    assert "with the right one" in line and "<input" not in line
    assert backend.feedback.ratings()[0].expected == "5730264 <b>"
    assert click(page, "expected", "unknown", text="x") == ""


def test_nothing_is_saved_of_an_answer_from_a_deleted_document_or_on_a_full_disk(page, rated, backend, monkeypatch):
    def full(*arguments):
        raise StoreFull("The disk is full.")

    monkeypatch.setattr(backend.feedback, "put", full)
    assert "Free some disk space" in rated("good")
    monkeypatch.undo()
    backend.stored_documents = []
    assert "was deleted" in rated("good") and backend.feedback.ratings() == []
    assert page.feedback.rate(None, None, gr.EventData(None, {"id": "good"})) == ""
