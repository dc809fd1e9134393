"""Example questions on an empty page; only those whose documents are in the library are shown."""

from collections.abc import Mapping

import gradio as gr

from backend.interface.backend import Backend
from ui.events import INSTANT, Update
from ui.html import Markup, tag


class SampleQuestions:
    """A line of text and one button per question."""

    def __init__(
        self,
        backend: Backend,
        samples: Mapping[str, str],
        intro: str = "Try one of these:",
        without_samples: str = "Add a document, then ask about it.",
    ) -> None:
        """Create the components inside the open Blocks; `samples` are document names by question.

        The line is `intro`, or `without_samples` if there is no question.
        """
        self._backend = backend
        self._samples = samples
        self._lines = {True: intro, False: without_samples}
        self._line = gr.HTML(self._text(bool(samples)), js_on_load=None)
        self.buttons = {question: gr.Button(question, size="sm", elem_classes="kv-sample") for question in samples}

    def follow(self, document_list: gr.HTML) -> None:
        """Update the visible questions whenever the sidebar's list of documents changes."""
        document_list.change(self.current, None, [self._line, *self.buttons.values()], **INSTANT)

    def current(self) -> Update:
        """Return the visible questions; all of them while the sample documents may still be added."""
        status = self._backend.status()
        may_be_added = not status.ready or status.adding_samples
        names = {document.name for document in self._backend.documents()}
        visible = {question: may_be_added or name in names for question, name in self._samples.items()}
        update: Update = {button: gr.Button(visible=visible[question]) for question, button in self.buttons.items()}
        return {self._line: self._text(any(visible.values())), **update}

    def _text(self, has_samples: bool) -> Markup:
        return tag("p", self._lines[has_samples], class_="kv-muted") if self._lines[has_samples] else Markup("")
