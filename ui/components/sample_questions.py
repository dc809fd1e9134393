"""Example questions on an empty page: about the sample documents while they are there, and about the user's own."""

from collections.abc import Collection, Mapping
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from ui.events import Listeners, Update
from ui.html import Markup, tag

_MAX_SUGGESTIONS = 3
_ABOUT_DOCUMENTS = "About your documents:"


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

        The line is `intro`; if there is no question it is `without_samples`, or empty if there are other documents.
        """
        self._backend = backend
        self._samples = samples
        self._intro, self._without_samples = intro, without_samples
        self._line = gr.HTML(_line(intro if samples else without_samples), js_on_load=None)
        self.buttons = {question: gr.Button(question, size="sm", elem_classes="kv-sample") for question in samples}

    def follow(self, documents_changed: Listeners) -> None:
        """Update the visible questions whenever the documents change."""
        documents_changed.add(self.current, [], [self._line, *self.buttons.values()])

    def current(self) -> Update:
        """Return the visible questions; all of them while the sample documents may still be added."""
        status = self._backend.status()
        may_be_added = not status.ready or status.adding_samples
        names = {document.name for document in self._backend.documents()}
        visible = {question: may_be_added or name in names for question, name in self._samples.items()}
        update: Update = {button: gr.Button(visible=visible[question]) for question, button in self.buttons.items()}
        line = self._intro if any(visible.values()) else "" if names else self._without_samples
        return {self._line: _line(line), **update}


class SuggestedQuestions:
    """Buttons with questions about the newest documents, but for those with names in `without`.

    The first asks for a summary of the newest one; the next ones come from the documents' texts, if these have any.
    """

    def __init__(self, backend: Backend, without: Collection[str]) -> None:
        """Create the buttons inside the open Blocks."""
        self._backend = backend
        self._without = without
        self._line = gr.HTML(js_on_load=None)
        look: dict[str, Any] = {"size": "sm", "visible": False, "elem_classes": "kv-sample"}
        self.buttons = [gr.Button("", **look) for _ in range(_MAX_SUGGESTIONS)]

    def follow(self, documents_changed: Listeners) -> None:
        """Update the questions whenever the documents change."""
        documents_changed.add(self.current, [], [self._line, *self.buttons])

    def current(self) -> Update:
        """Return the buttons with the current questions."""
        documents = [each for each in self._backend.documents() if each.name not in self._without][:_MAX_SUGGESTIONS]
        summaries = [f"Summarize {document.name}." for document in documents]
        ids = [document.id for document in documents]
        try:
            suggested = self._backend.library.suggested_questions(ids, _MAX_SUGGESTIONS - 1)
        except Exception as error:  # noqa: BLE001  the UI's boundary; other updates of the page go on
            user_message(error)  # logs it
            suggested = []
        questions = [*summaries[:1], *suggested, *summaries[1:]][:_MAX_SUGGESTIONS]
        texts = [*questions, *[""] * (_MAX_SUGGESTIONS - len(questions))]
        shown = [gr.Button(text, visible=bool(text)) for text in texts]
        line = _line(_ABOUT_DOCUMENTS if questions else "")
        return {self._line: line, **dict(zip(self.buttons, shown, strict=True))}


def _line(text: str) -> Markup:
    return tag("p", text, class_="kv-muted") if text else Markup("")
