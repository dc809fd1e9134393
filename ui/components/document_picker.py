"""The choice of documents to search: all of them, or selected ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from backend.interface.backend import Backend
from ui.events import INSTANT
from ui.format import short

_MAX_NAME_CHARS = 48


class DocumentPicker:
    """A multi-select dropdown; its value is a list of document ids."""

    def __init__(self, backend: Backend, elem_id: str) -> None:
        """Create the dropdown inside the open Blocks."""
        self._backend = backend
        self.documents = gr.Dropdown(
            self._choices(),
            multiselect=True,
            value=[],
            label="Search in",
            info="Choose some to search only these.",
            min_width=120,
            elem_id=elem_id,
            elem_classes="kv-where",
        )

    def follow(self, document_list: gr.HTML) -> None:
        """Update the choices whenever the sidebar's list of documents changes."""
        document_list.change(self.refresh, self.documents, self.documents, **INSTANT)

    def refresh(self, selected: list[str] | None) -> gr.Dropdown:
        """Return the dropdown with the current documents; deleted ones are deselected."""
        return gr.Dropdown(choices=self._choices(), value=self.only_existing(selected))

    def only_existing(self, selected: Sequence[str] | None) -> list[str]:
        """Return the selected ids without those of deleted documents."""
        existing = {document_id for _, document_id in self._choices()}
        return [document_id for document_id in selected or [] if document_id in existing]

    def _choices(self) -> list[tuple[str, str]]:
        return [(short(document.name, _MAX_NAME_CHARS), document.id) for document in self._backend.documents()]


@dataclass(frozen=True, slots=True)
class QuestionInputs:
    """The inputs of a page that another page fills when it sends a question there."""

    question: gr.Textbox
    passages: gr.Slider
    picker: DocumentPicker
