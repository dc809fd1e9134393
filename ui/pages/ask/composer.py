"""The question box and its settings."""

from collections.abc import Sequence
from typing import Any

import gradio as gr
from gradio.components import Component

from backend.interface.backend import Backend
from engine.fidelity import TARGETS
from engine.method import SERVER_METHOD, default_method, local_methods
from engine.request import ChatTurn, Request
from store.errors import KVScopeError
from store.types import COLLECTION
from ui.components import inputs
from ui.components.document_picker import DocumentPicker
from ui.components.method_options import MethodOptions
from ui.events import INSTANT, Listeners, Update
from ui.html import tag
from ui.pages.ask.collection_settings import CollectionSettings

_DEFAULTS = Request(question="")
_RATIO = "Recompute %: speed \u2194 fidelity"
_RATIO_INFO = "Share of the passages' tokens to recompute. Lower is faster, higher is closer to full prefill."
_TARGET_INFO = "How close to full prefill the answer stays. Sets Recompute % to what this model needs."
_TEMPERATURE_INFO = "0 always picks the most likely token; higher is more varied and less faithful."
_LENGTH = "Max answer length (tokens)"
_LENGTH_INFO = "A token is about three quarters of a word."
_DRAFT = "Draft first"
_DRAFT_INFO = "If recomputing takes a second or longer, show an answer from cached KV first, then verify it."
_WHOLE = "Use the whole document"
_WHOLE_INFO = "All passages in order, instead of the best-matching ones."
_SLIDERS = tag("path", d="M4 7h10 M18 7h2 M4 17h2 M10 17h10 M14 4.5v5 M10 14.5v5")
_ICON = {"width": 20, "height": 20, "viewBox": "0 0 24 24", "fill": "none", "stroke": "currentColor", "stroke_width": 2}
_OPENS = {"data_opens": "kv-settings-open", "aria_expanded": "false", "aria_controls": "settings"}
_SETTINGS_TOGGLE = tag(  # in a chat, where the settings are folded
    "button",
    tag("svg", _SLIDERS, **_ICON, stroke_linecap="round", aria_hidden="true"),
    tag("span", "Answer settings"),
    type="button",
    title="Answer settings",
    **_OPENS,
)


class Composer:
    """The question box with its settings; `options` are the inputs that only the chosen method has."""

    def __init__(self, backend: Backend, tab: gr.Tab) -> None:
        """Create and connect the components inside the open Blocks; `tab` is the page's."""
        self._backend = backend
        methods = backend.methods()
        self._method = default_method(methods).name
        by_name = {method.name: method for method in methods}
        self.replaces_last = gr.State(False)  # whether the question in the box is to replace the last one
        with gr.Column(elem_id="composer", min_width=0):
            with gr.Row(elem_id="ask-row", equal_height=False):
                self.question = inputs.question_box("Question", "Ask your documents…", "question", autofocus=True)
                gr.HTML(_SETTINGS_TOGGLE, elem_id="settings-toggle", min_width=0, js_on_load=None)
                self.buttons = inputs.run_buttons("Ask", "ask", "stop", **inputs.BESIDE_BOX)
            self.message = gr.HTML(elem_id="ask-message", js_on_load=None)
            self.preview = gr.HTML(elem_id="preview", js_on_load="kvscopeAsk.connectPreview(element, trigger);")
            with gr.Row(elem_id="settings", equal_height=False):
                default, local = default_method(methods), default_method(local_methods(methods))
                ratio = inputs.ratio_slider("ratio", _RATIO_INFO, default.has_ratio, _RATIO)
                self.picker = DocumentPicker(backend, "where")
                target = gr.Radio(
                    [(name.capitalize(), name) for name in TARGETS],
                    label="Target",
                    info=_TARGET_INFO,
                    visible=inputs.visibility(default == local and local.has_ratio),
                    min_width=120,
                    elem_id="target",
                )
                self.whole = gr.Checkbox(
                    label=_WHOLE, info=_WHOLE_INFO, visible="hidden", min_width=120, elem_id="whole"
                )
            self.remembered = CollectionSettings(backend)
            with gr.Accordion("Advanced", open=False, elem_id="advanced"):
                look: dict[str, Any] = {"buttons": [], "min_width": 200}
                # Shared settings come first, so that choosing a method moves nothing but its own options.
                with gr.Row():
                    method = inputs.method_choice(methods, "method")
                    passages = inputs.passages_slider("passages-count")
                    temperature = gr.Slider(
                        0, 1.5, _DEFAULTS.temperature, step=0.1, label="Temperature", info=_TEMPERATURE_INFO, **look
                    )
                    max_new_tokens = gr.Slider(
                        16, 1024, _DEFAULTS.max_new_tokens, step=16, label=_LENGTH, info=_LENGTH_INFO, **look
                    )
                    is_shown = inputs.visibility(default == local)
                    draft = gr.Checkbox(True, label=_DRAFT, info=_DRAFT_INFO, visible=is_shown, elem_id="draft")
                    self.options = MethodOptions(methods, default.name)

        def change_method(name: str) -> Update:
            selected = by_name[name]
            return {
                method: gr.update(info=selected.description),
                ratio: gr.update(visible=inputs.visibility(selected.has_ratio)),
                target: gr.Radio(visible=inputs.visibility(name == local.name)),
                draft: gr.Checkbox(visible=inputs.visibility(name != SERVER_METHOD)),
                **self.options.show(name),
            }

        method.change(change_method, method, [method, ratio, target, draft, *self.options.components()], **INSTANT)
        target.input(self._meet_target, [target, passages], [ratio, target], **INSTANT)
        for event in (passages.release, tab.select):  # Settings may have changed the model
            event(self._meet_again, [target, passages], [ratio, target], **INSTANT)
        ratio.input(lambda: gr.Radio(value=None, info=_TARGET_INFO), None, target, **INSTANT)
        documents = self.picker.documents
        documents.change(self._whole_checkbox, documents, self.whole, **INSTANT)
        named = {
            "method": method,
            "passages": passages,
            "recompute_percent": ratio,
            "temperature": temperature,
            "max_new_tokens": max_new_tokens,
            "draft": draft,
        }
        self.settings: list[Component] = [*named.values()]
        self.remembered.connect(documents, {**named, "target": target}, self.options, self._meet_target)

    def follow(self, documents_changed: Listeners) -> None:
        """Update the documents to choose from whenever the documents change."""
        documents = self.picker.documents
        documents_changed.add(self.refresh, [documents], [documents, self.whole])

    def refresh(self, selected: list[str] | None) -> Update:
        """Return picker and checkbox for the current documents; deleted ones are deselected."""
        existing = self.picker.only_existing(selected)
        return {self.picker.documents: self.picker.refresh(selected), self.whole: self._whole_checkbox(existing)}

    def select(self, scope: Sequence[str]) -> Update:
        """Return picker and checkbox with a scope selected."""
        return {self.picker.documents: self.picker.select(scope), self.whole: self._whole_checkbox(list(scope))}

    def inputs(self) -> list[Component]:
        """Return all components except the question, in the order of `values` in `to_request`."""
        return [*self.settings, self.picker.documents, self.whole, *self.options.components()]

    def to_request(self, question: str, values: Sequence[Any], history: tuple[ChatTurn, ...] = ()) -> Request:
        """Return the inputs' values as a Request; the engine validates them."""
        method, passages, percent, temperature, max_new_tokens, draft, documents, whole, *options = values
        return Request(
            question=question.strip(),
            method=method,
            recompute_ratio=percent / 100,
            passages=int(passages),
            temperature=float(temperature),
            max_new_tokens=int(max_new_tokens),
            options=self.options.read(method, options),
            documents=tuple(documents or ()),
            history=history,
            whole_document=bool(whole),
            draft=bool(draft),
        )

    def _meet_target(self, target: str, passages: int) -> tuple[Any, Any]:
        """Return the least ratio that reaches the target on this model, and where that follows from."""
        curve = self._backend.models.fidelity().curve
        if curve is None:
            return gr.skip(), gr.Radio(value=None, info="This model is not calibrated yet (Settings, Fidelity).")
        limit = f"{TARGETS[target]:g} nats of KL from full prefill on this model (passages: {int(passages)})"
        ratio = curve.for_passages(int(passages)).least_ratio(TARGETS[target])
        if ratio is None:
            info = f"Reuse does not stay within {limit}: everything is recomputed."
            return gr.Slider(value=100), gr.Radio(value=target, info=info)
        info = f"{100 * ratio:g} % is the least that stays within {limit}."
        return gr.Slider(value=100 * ratio), gr.Radio(value=target, info=info)

    def _meet_again(self, target: str | None, passages: int) -> tuple[Any, Any]:
        """Return the same for the model that is loaded now; without a target, nothing changes."""
        if target and self._backend.models.reload_status().running:
            return gr.skip(), gr.Radio(value=None, info=_TARGET_INFO)
        return self._meet_target(target, passages) if target else (gr.skip(), gr.skip())

    def _whole_checkbox(self, selected: list[str] | None) -> Any:
        """Show the checkbox if one document is selected, disabled if it does not fit into the context."""
        documents = tuple(selected or ())
        if len(documents) != 1 or documents[0].startswith(COLLECTION):
            return gr.Checkbox(visible="hidden", value=False)
        try:
            budget = self._backend.budget(Request("", self._method, documents=documents, whole_document=True))
        except KVScopeError:  # e.g. the models are still loading; asking reports what is wrong
            return gr.Checkbox(visible=True, interactive=True, info=_WHOLE_INFO)
        if budget.fits_whole:
            info = f"{_WHOLE_INFO} It has {budget.document_tokens:,} tokens."
            return gr.Checkbox(visible=True, interactive=True, info=info)
        info = f"Too long: {budget.document_tokens:,} tokens; the model's context holds {budget.max_tokens:,}."
        return gr.Checkbox(visible=True, interactive=False, value=False, info=info)
