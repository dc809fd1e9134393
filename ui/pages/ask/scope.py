"""The documents to search: all, selected ones, or all passages of a single one."""

from typing import Any

import gradio as gr
from gradio.components import Component

from backend.interface.backend import Backend
from engine.request import Request
from store.errors import KVScopeError
from ui.components.document_picker import DocumentPicker
from ui.components.inputs import visibility
from ui.events import QUIET, Update

_WHOLE_INFO = "All passages in order, instead of the best-matching ones."


class DocumentScope:
    """The document picker, and a checkbox to use the whole document if exactly one is selected."""

    def __init__(self, backend: Backend) -> None:
        """Create both inside the open Blocks."""
        self._backend = backend
        self._picker = DocumentPicker(backend, "where")
        self.documents = self._picker.documents
        self.whole = gr.Checkbox(
            label="Use the whole document",
            info=_WHOLE_INFO,
            visible=visibility(False),
            min_width=120,
            elem_id="whole",
        )
        self.documents.change(self._checkbox_for, self.documents, self.whole, queue=False, **QUIET)

    def components(self) -> list[Component]:
        """Return the picker's dropdown and the checkbox."""
        return [self.documents, self.whole]

    def follow(self, document_list: gr.HTML) -> None:
        """Update both whenever the sidebar's list of documents changes."""
        document_list.change(self.refresh, self.documents, self.components(), queue=False, **QUIET)

    def refresh(self, selected: list[str] | None) -> Update:
        """Return both for the current documents; deleted ones are deselected."""
        existing = self._picker.only_existing(selected)
        return {self.documents: self._picker.refresh(selected), self.whole: self._checkbox_for(existing)}

    def _checkbox_for(self, selected: list[str] | None) -> Any:
        """Show the checkbox if one document is selected, disabled if it does not fit into the context."""
        if len(selected or []) != 1:
            return gr.Checkbox(visible=visibility(False), value=False)
        try:
            budget = self._backend.budget(Request("", documents=tuple(selected or ()), whole_document=True))
        except KVScopeError:  # e.g. the models are still loading; asking reports what is wrong
            return gr.Checkbox(visible=True, interactive=True, info=_WHOLE_INFO)
        if budget.fits_whole:
            info = f"{_WHOLE_INFO} It has {budget.document_tokens:,} tokens."
            return gr.Checkbox(visible=True, interactive=True, info=info)
        info = f"Too long: {budget.document_tokens:,} tokens; the model's context holds {budget.max_tokens:,}."
        return gr.Checkbox(visible=True, interactive=False, value=False, info=info)
