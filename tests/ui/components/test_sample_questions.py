"""Sample questions are shown while their documents may still be added, and then while the library has them."""

import time
from dataclasses import replace

import gradio as gr
import pytest

from store.types import Document
from tests.support.fake_backend.backend import READY, FakeBackend
from ui.components.sample_questions import SampleQuestions, SuggestedQuestions

BOTH, ONE, NONE = {"One?": True, "Two?": True}, {"One?": False, "Two?": True}, {"One?": False, "Two?": False}
TWO = [Document("2" * 64, "two.txt", 10, None, 8, time.time())]


@pytest.mark.parametrize(
    ("status", "documents", "expected"),
    [
        (replace(READY, ready=False), [], BOTH),
        (replace(READY, adding_samples=True), [], BOTH),
        (READY, TWO, ONE),
        (READY, [], NONE),
    ],
)
def test_visible_questions_can_be_answered_now_or_soon(status, documents, expected):
    backend = FakeBackend(documents=documents)
    backend.state = status
    with gr.Blocks():
        samples = SampleQuestions(backend, {"One?": "one.txt", "Two?": "two.txt"})
    line, *buttons = samples.current().values()
    assert {text: button.visible for text, button in zip(samples.buttons, buttons, strict=True)} == expected
    assert ("Add a document" in str(line)) == (expected == NONE)


def test_a_summary_of_the_newest_document_stays_before_questions_from_the_texts():
    names = ("lease.pdf", "notes.md", "two.txt", "budget.xlsx", "old.md")
    backend = FakeBackend(documents=[Document(name, name, 10, None, 8, time.time()) for name in names])
    hostile = "What does notes.md say about <img src=x onerror=alert(1)>?"
    backend.library.suggested = {"notes.md": [hostile], "two.txt": ["A sample?"], "old.md": ["Now among the newest?"]}
    with gr.Blocks():
        suggestions = SuggestedQuestions(backend, {"two.txt"})

    def shown():
        return [button.value for button in list(suggestions.current().values())[1:] if button.visible]

    assert shown() == ["Summarize lease.pdf.", hostile, "Summarize notes.md."]
    backend.library.suggested["lease.pdf"] = ["Can I keep pets?", "Who pays?"]
    assert shown() == ["Summarize lease.pdf.", "Can I keep pets?", "Who pays?"]
    del backend.stored_documents[0]
    assert shown() == ["Summarize notes.md.", hostile, "Now among the newest?"]


def test_summaries_alone_are_offered_if_the_texts_cannot_be_read(monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("broken passage")

    backend = FakeBackend(documents=TWO)
    monkeypatch.setattr(backend.library, "suggested_questions", fail)
    with gr.Blocks():
        suggestions = SuggestedQuestions(backend, set())
    shown = [button.value for button in list(suggestions.current().values())[1:] if button.visible]
    assert shown == ["Summarize two.txt."] and "broken passage" in caplog.text


def test_summaries_of_the_users_own_documents_are_offered():
    backend = FakeBackend(documents=[*TWO, Document("3" * 64, "<b>lease</b>.pdf", 10, 2, 8, time.time())])
    with gr.Blocks():
        summaries = SuggestedQuestions(backend, {"two.txt"})
        samples = SampleQuestions(backend, {"One?": "one.txt"})
    line, first, *others = summaries.current().values()
    assert (first.value, first.visible) == ("Summarize <b>lease</b>.pdf.", True) and not any(b.visible for b in others)
    assert "About your documents" in str(line) and str(next(iter(samples.current().values()))) == ""
    backend.stored_documents = TWO
    assert not any(button.visible for button in list(summaries.current().values())[1:])
