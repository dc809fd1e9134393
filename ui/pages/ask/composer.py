"""The question box and its settings."""

from collections.abc import Sequence
from typing import Any

import gradio as gr
from gradio.components import Component

from backend.interface.backend import Backend
from engine.request import ChatTurn, Request
from ui.components.inputs import (
    method_choice,
    passages_slider,
    question_box,
    ratio_slider,
    run_and_stop_buttons,
    visibility,
)
from ui.components.method_options import MethodOptions
from ui.events import QUIET, Update
from ui.html import tag
from ui.pages.ask.scope import DocumentScope

_DEFAULTS = Request(question="")
_RATIO_INFO = "Share of the passages' tokens to recompute. Lower is faster, higher is closer to full prefill."


class Composer:
    """The question box with its settings.

    message   why a question was not sent
    settings  inputs that all methods share
    options   inputs that only the chosen method has
    """

    def __init__(self, backend: Backend) -> None:
        """Create and connect the components inside the open Blocks.

        Shared settings come first, so that choosing a method moves nothing but its own options.
        """
        methods = backend.methods()
        by_name = {method.name: method for method in methods}
        with gr.Column(elem_id="composer", min_width=0):
            with gr.Row(elem_id="ask-row", equal_height=False):
                self.question = question_box("Question", "Ask your documents…", "question", autofocus=True)
                self.ask_button, self.stop_button = run_and_stop_buttons("Ask", "ask", "stop")
            self.message = gr.HTML(elem_id="ask-message", js_on_load=None)
            # Phones show this button instead of the settings.
            attributes = {"data_opens": "kv-settings-open", "aria_expanded": "false", "aria_controls": "settings"}
            toggle = tag("button", "Method and settings", type="button", **attributes)
            gr.HTML(toggle, elem_id="settings-toggle", js_on_load=None)
            with gr.Row(elem_id="settings", equal_height=False):
                method, default = method_choice(methods, "method")
                passages = passages_slider("passages-count")
                ratio = ratio_slider("ratio", _RATIO_INFO, default.has_ratio)
                self.scope = DocumentScope(backend)
                self.options = MethodOptions(methods, default.name)
            with gr.Accordion("Advanced", open=False, elem_id="advanced"), gr.Row():
                temperature = gr.Slider(
                    0,
                    1.5,
                    value=_DEFAULTS.temperature,
                    step=0.1,
                    label="Temperature",
                    info="0 always picks the most likely token; higher is more varied and less faithful.",
                    buttons=[],
                    min_width=200,
                )
                max_new_tokens = gr.Slider(
                    16,
                    1024,
                    value=_DEFAULTS.max_new_tokens,
                    step=16,
                    label="Max answer length (tokens)",
                    info="A token is about three quarters of a word.",
                    buttons=[],
                    min_width=200,
                )

        def change_method(name: str) -> Update:
            selected = by_name[name]
            return {
                method: gr.update(info=selected.description),
                ratio: gr.update(visible=visibility(selected.has_ratio)),
                **self.options.show(name),
            }

        method.change(change_method, method, [method, ratio, *self.options.components()], queue=False, **QUIET)
        self.settings: list[Component] = [method, passages, ratio, temperature, max_new_tokens]

    def inputs(self) -> list[Component]:
        """Return all components except the question, in the order of `values` in `to_request`."""
        return [*self.settings, *self.scope.components(), *self.options.components()]

    def to_request(self, question: str, values: Sequence[Any], history: tuple[ChatTurn, ...] = ()) -> Request:
        """Return the inputs' values as a Request; the engine validates them."""
        method, passages, percent, temperature, max_new_tokens, documents, whole, *options = values
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
        )
