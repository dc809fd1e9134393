"""The Lab page: one question, answered by several methods side by side, and what the models attend to for it."""

from collections.abc import Mapping

import gradio as gr

from backend.interface.backend import Backend
from ui.components.document_picker import DocumentPicker, QuestionInputs
from ui.components.inputs import BESIDE_BOX, passages_slider, question_box, run_buttons
from ui.events import INSTANT, Listeners
from ui.pages.lab.compare.part import Compare
from ui.pages.lab.inspect.part import Inspect

_HINT = "One question for all methods…"
_PRESS_JS = "() => kvscopePress('#compare-run, #inspect-go', 0)"  # the one of the open part; styles hide the other


class Lab:
    """Both parts have the same question, number of passages and documents."""

    def __init__(self, backend: Backend, samples: Mapping[str, str]) -> None:
        self._backend = backend
        self.compare = Compare(backend, samples)
        self.inspect = Inspect(backend)

    def build(self, tab: gr.Tab) -> None:
        with gr.Column(elem_id="lab-page", elem_classes="kv-page", min_width=0):
            with gr.Row(elem_id="lab-box", equal_height=False):
                question = question_box("Question", _HINT, "lab-question")
                compare_buttons = run_buttons("Compare", "compare-run", "compare-stop", **BESIDE_BOX)
                inspect_buttons = run_buttons("Inspect", "inspect-go", "inspect-stop", **BESIDE_BOX)
                picker = DocumentPicker(self._backend, "lab-where")
                passages = passages_slider("lab-passages")
            self.question_inputs = QuestionInputs(question, passages, picker)
            with gr.Tabs(elem_id="lab-parts") as self.parts:
                with gr.Tab("Speed and answers", id="compare", elem_id="tab-compare"):
                    self.compare.build(self.question_inputs, compare_buttons)
                with gr.Tab("Where it looks", id="inspect", elem_id="tab-inspect"):
                    self.inspect.build(self.question_inputs, inspect_buttons)
        question.submit(None, None, None, js=_PRESS_JS, **INSTANT)

    def follow(self, documents_changed: Listeners) -> None:
        """Update the picker and the example questions whenever the documents change."""
        self.question_inputs.picker.follow(documents_changed)
        self.compare.follow(documents_changed)
