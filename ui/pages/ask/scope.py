"""Which documents a question goes to: all, chosen ones, or one of them from its first passage to its last."""

from typing import Any

import gradio as gr
from gradio.components import Component

from backend.interface.backend import Backend
from engine.request import Request
from store.errors import KVScopeError
from ui.components.document_picker import DocumentPicker
from ui.components.inputs import shown
from ui.events import QUIET, Update

_WHOLE = "All of it in order, instead of the best passages."


class Scope:
    """Two components; `read` says what they mean."""

    def __init__(self, backend: Backend) -> None:
        """Draw them inside the open Blocks."""
        self._backend, self._where = backend, DocumentPicker(backend, "where")
        self.documents = self._where.documents
        self.whole = gr.Checkbox(
            label="Read it whole",
            info=_WHOLE,
            visible=shown(False),
            min_width=120,
            elem_id="whole",
        )
        self.documents.change(self._choose, self.documents, self.whole, queue=False, **QUIET)

    def components(self) -> list[Component]:
        """Return both, in the order of `read`."""
        return [self.documents, self.whole]

    def follow(self, shelf: gr.HTML) -> None:
        """Offer what is there now whenever the list of documents changes."""
        shelf.change(self.refresh, self.documents, [self.documents, self.whole], queue=False, **QUIET)

    def refresh(self, chosen: list[str] | None) -> Update:
        """Return the choices of now; what was deleted is no longer chosen."""
        return {self.documents: self._where.refresh(chosen), self.whole: self._choose(self._where.left(chosen))}

    def _choose(self, chosen: list[str] | None) -> Any:
        """Offer to read one chosen document whole, with its length; not where it is too long."""
        if len(chosen or []) != 1:
            return gr.Checkbox(visible=shown(False), value=False)
        try:
            budget = self._backend.budget(Request("", documents=tuple(chosen or ()), whole=True))
        except KVScopeError:  # the models are still loading: the question itself will say what is wrong
            return gr.Checkbox(visible=True, interactive=True, info=_WHOLE)
        if budget.fits_whole:
            return gr.Checkbox(visible=True, interactive=True, info=f"{_WHOLE} It has {budget.documents:,} tokens.")
        said = f"Too long: it has {budget.documents:,} tokens, the model reads {budget.max_tokens:,} in all."
        return gr.Checkbox(visible=True, interactive=False, value=False, info=said)
