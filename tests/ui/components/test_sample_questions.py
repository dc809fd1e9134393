"""Sample questions are shown while their documents may still be added, and then while the library has them."""

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
