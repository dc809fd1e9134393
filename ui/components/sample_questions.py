"""Questions that an empty page offers, one click each: those whose documents are there."""

from collections.abc import Mapping

import gradio as gr

from backend.interface.backend import Backend
from ui.events import QUIET, Update
from ui.html import Markup, tag

_ADD = "Add a document, then ask about it."
_TRY = "Try one of these:"


class SampleQuestions:
    """A line and its buttons.

    samples  questions, each with the name of the document that answers it
    """

    def __init__(self, backend: Backend, samples: Mapping[str, str]) -> None:
        """Draw them inside the open Blocks."""
        self._backend, self._samples = backend, samples
        self._line = gr.HTML(_said(bool(samples)), js_on_load=None)
        self.buttons = {text: gr.Button(text, size="sm", elem_classes="kv-sample") for text in samples}

    def follow(self, shelf: gr.HTML) -> None:
        """Offer what can be answered now whenever the list of documents changes."""
        shelf.change(self.current, None, [self._line, *self.buttons.values()], queue=False, **QUIET)

    def current(self) -> Update:
        """Return what is offered now; everything, while the samples may still come."""
        status = self._backend.status()
        coming, there = not status.ready or status.reading, {document.name for document in self._backend.documents()}
        shown = {text: coming or name in there for text, name in self._samples.items()}
        buttons: Update = {button: gr.Button(visible=shown[text]) for text, button in self.buttons.items()}
        return {self._line: _said(any(shown.values())), **buttons}


def _said(offered: bool) -> Markup:
    return tag("p", _TRY if offered else _ADD, class_="kv-muted")
