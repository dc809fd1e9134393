"""Rating an answer, without a browser."""

import gradio as gr
import pytest

from store.errors import StoreFull
from store.types import Document
from tests.ui.test_flow import ask

DOCUMENT = Document("e" * 64, "manual.pdf", 10, 4, 8, 1.0)


class Rated:
    """An answer on the screen: sends clicks to its handlers and keeps the id of its rating."""

    def __init__(self, page):
        *_, ended = ask(page, "Which code?")
        self.panel, self.rating_id = page.feedback, ended.get(page.results.rating_id, "")
        self.answer, self.chat = ended[page.results.answer], ended[page.chat]

    def show(self, update):
        self.rating_id = update.get(self.panel.rating_id, self.rating_id)
        return update[self.panel.line]

    def rate(self, verdict):
        event = gr.EventData(None, {"id": verdict})
        return self.show(self.panel.rate(self.answer, self.chat, self.rating_id, event))

    def click(self, act, **data):
        return self.show(self.panel.change(self.rating_id, gr.EventData(None, {"act": act, "id": "any", **data})))


@pytest.fixture
def rated(app, backend):
    backend.stored_documents = [DOCUMENT]
    return Rated(app.ask)


def test_a_good_answer_is_saved_with_question_and_passages_until_it_is_withdrawn(rated, backend):
    line = rated.rate("good")
    assert "Saved as a good answer" in line and "Everyone who uses this library can export it" in line
    (rating,) = backend.feedback.ratings()
    assert rating.is_good and rating.question == "Which code?" and rating.method == "full"
    assert rating.answer == "The code is 5730264 . Shifts are swapped with form HL-118 , handed in before noon."
    assert [passage.document_id for passage in rating.passages] == [DOCUMENT.id] * 3
    assert all(len(passage.text) > 50 for passage in rating.passages)
    assert rated.click("undo") == "" and backend.feedback.ratings() == []
    assert rated.click("undo") == "" and rated.click("expected", text="x") == ""


def test_the_last_verdict_counts_and_the_right_answer_can_be_added(rated, backend):
    rated.rate("good")
    assert "What would have been right?" in rated.rate("bad")
    (rating,) = backend.feedback.ratings()
    assert not rating.is_good and rating.expected == ""
    line = rated.click("expected", text=" 5730264 <b> \ud800")
    assert "with the right one" in line and "<input" not in line
    assert backend.feedback.ratings()[0].expected == "5730264 <b> \ufffd"


def test_a_client_cannot_change_the_rating_of_another(rated, backend, app):
    rated.rate("good")
    other = Rated(app.ask)
    other.click("undo", id=rated.rating_id)
    assert len(backend.feedback.ratings()) == 1 and rated.rating_id not in backend.feedback.export()


def test_nothing_is_saved_of_an_answer_from_a_deleted_document_or_on_a_full_disk(rated, backend, monkeypatch):
    def full(*arguments):
        raise StoreFull("The disk is full.")

    monkeypatch.setattr(backend.feedback, "put", full)
    assert "Free some disk space" in rated.rate("good")
    monkeypatch.undo()
    backend.stored_documents = []
    assert "was deleted" in rated.rate("good") and backend.feedback.ratings() == []
    rated.answer = None
    assert rated.rate("good") == ""
