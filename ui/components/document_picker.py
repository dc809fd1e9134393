"""The choice of documents to search: all of them, or selected ones and collections."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import gradio as gr

from backend.interface.backend import Backend
from store.types import COLLECTION, Document
from ui.events import Listeners
from ui.format import count, short

_MAX_NAME_CHARS = 48
_LOADING = "Loading\u2026"


class DocumentPicker:
    """A multi-select dropdown; its value is a scope, see `Document.is_in`."""

    def __init__(self, backend: Backend, elem_id: str) -> None:
        """Create the dropdown inside the open Blocks."""
        self._backend = backend
        self.documents = gr.Dropdown(
            self._choices(),
            multiselect=True,
            value=[],
            label="Search in",
            info="Choose documents or collections to search only these.",
            min_width=120,
            elem_id=elem_id,
            elem_classes="kv-where",
        )

    def follow(self, documents_changed: Listeners) -> None:
        """Update the choices whenever the documents change."""
        documents = [self.documents]
        documents_changed.add(lambda selected: {self.documents: self.refresh(selected)}, documents, documents)

    def refresh(self, selected: list[str] | None) -> gr.Dropdown:
        """Return the dropdown with the current collections and documents; deleted ones are deselected."""
        existing, choices = self._existing(selected)
        is_unchanged = existing == (selected or []) and {key for _, key in choices}.issuperset(existing)
        return gr.Dropdown(choices=choices) if is_unchanged else _with_selected(existing, choices)

    def select(self, scope: Sequence[str]) -> gr.Dropdown:
        """Return the dropdown with what exists of a scope selected."""
        return _with_selected(*self._existing(scope))

    def only_existing(self, selected: Sequence[str] | None) -> list[str]:
        """Return what is selected without deleted documents and collections; all of it while these are unknown."""
        return self._existing(selected)[0]

    def _existing(self, selected: Sequence[str] | None) -> tuple[list[str], list[tuple[str, str]]]:
        """Return what exists of a selection, and all choices; they are read once."""
        choices, status = self._choices(), self._backend.status()
        if not (status.ready or status.failed or choices):
            return list(selected or []), choices
        keys = {key for _, key in choices}
        return [key for key in selected or [] if key in keys], choices

    def _choices(self) -> list[tuple[str, str]]:
        documents = self._backend.documents()
        collections = [
            (f"{name} ({count(size, 'document')})", COLLECTION + name)
            for name, size in collection_sizes(documents).items()
        ]
        return collections + [(short(document.name, _MAX_NAME_CHARS), document.id) for document in documents]


def _with_selected(selected: list[str], choices: list[tuple[str, str]]) -> gr.Dropdown:
    unknown = set(selected) - {key for _, key in choices}
    return gr.Dropdown(choices=choices + [(_LOADING, key) for key in unknown], value=selected, multiselect=True)


def collection_sizes(documents: Iterable[Document]) -> dict[str, int]:
    """Return the number of documents in each collection, in alphabetical order."""
    sizes = Counter(name for document in documents for name in document.collections)
    return dict(sorted(sizes.items(), key=lambda item: item[0].casefold()))


@dataclass(frozen=True, slots=True)
class QuestionInputs:
    """The inputs of a page that another page fills when it sends a question there."""

    question: gr.Textbox
    passages: gr.Slider
    picker: DocumentPicker
