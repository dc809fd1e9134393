"""Sample questions are offered while their documents may come, and then while they are there."""

import time
from dataclasses import replace

import gradio as gr
import pytest

from store.types import Document
from tests.support.fake_backend.backend import READY, FakeBackend
from ui.components.sample_questions import SampleQuestions

BOTH, ONE, NONE = {"One?": True, "Two?": True}, {"One?": False, "Two?": True}, {"One?": False, "Two?": False}
TWO = [Document("2" * 64, "two.txt", 10, None, 8, time.time())]


@pytest.mark.parametrize(
    ("status", "documents", "offered"),
    [
        (replace(READY, ready=False), [], BOTH),
        (replace(READY, reading=True), [], BOTH),
        (READY, TWO, ONE),
        (READY, [], NONE),
    ],
)
def test_what_is_offered_can_be_answered_or_may_be_soon(monkeypatch, status, documents, offered):
    backend = FakeBackend()
    backend._documents = documents
    monkeypatch.setattr(backend, "status", lambda: status)
    with gr.Blocks():
        offers = SampleQuestions(backend, {"One?": "one.txt", "Two?": "two.txt"})
    line, *shown = offers.current().values()
    assert {text: button.visible for text, button in zip(offers.buttons, shown, strict=True)} == offered
    assert ("Add a document" in str(line)) == (offered == NONE)
