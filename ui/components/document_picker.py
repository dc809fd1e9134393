"""Where a page looks for passages: in all documents, or in chosen ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from backend.interface.backend import Backend
from store.types import Document
from ui.events import QUIET
from ui.format import short

_NAME = 48


class DocumentPicker:
    """The list of documents to choose from; its value is a list of their ids."""

    def __init__(self, backend: Backend, name: str) -> None:
        """Draw it inside the open Blocks; `name` is its id."""
        self._backend = backend
        self.documents = gr.Dropdown(
            _choices(backend.documents()),
            multiselect=True,
            value=[],
            label="Documents",
            info="Where to look. Nothing chosen: everywhere.",
            min_width=120,
            elem_id=name,
            elem_classes="kv-where",
        )

    def follow(self, shelf: gr.HTML) -> None:
        """Offer what is there now whenever the list of documents changes."""
        shelf.change(self.refresh, self.documents, self.documents, queue=False, **QUIET)

    def refresh(self, chosen: list[str] | None) -> gr.Dropdown:
        """Return the choices of now; what was deleted is no longer chosen."""
        return gr.Dropdown(choices=_choices(self._backend.documents()), value=self.left(chosen))

    def left(self, chosen: Sequence[str] | None) -> list[str]:
        """Return those of the chosen documents that are still there."""
        there = {document.id for document in self._backend.documents()}
        return [each for each in chosen or [] if each in there]


@dataclass(frozen=True, slots=True)
class QuestionInputs:
    """What a page asks with, for another page that sends a question there."""

    question: gr.Textbox
    passages: gr.Slider
    where: DocumentPicker


def _choices(documents: Sequence[Document]) -> list[tuple[str, str]]:
    """Return names with ids; equal names are told apart by a number."""
    seen: dict[str, int] = {}
    choices = []
    for document in documents:
        seen[document.name] = seen.get(document.name, 0) + 1
        again = f" ({seen[document.name]})" if seen[document.name] > 1 else ""
        choices.append((short(document.name, _NAME) + again, document.id))
    return choices
