"""The question box and the settings beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.components import Component

from backend.interface.backend import Backend
from engine.request import ChatTurn, Request
from ui.components.inputs import go_and_stop, method_choice, passages_slider, question_box, ratio_slider, shown
from ui.components.method_options import Options
from ui.events import QUIET, Update
from ui.html import Markup, tag
from ui.pages.ask.scope import Scope

_DEFAULTS = Request(question="")
_RATIO = "Share of the passages computed again. Less is faster; more is closer to a full reading."


@dataclass(frozen=True, slots=True)
class Composer:
    """Its components.

    said      a sentence about the question that was not asked
    settings  what is the same for every method
    options   what only the chosen method has
    """

    question: gr.Textbox
    said: gr.HTML
    settings: list[Component]
    scope: Scope
    options: Options
    ask: gr.Button
    stop: gr.Button

    def inputs(self) -> list[Component]:
        """Return everything beside the question, in the order of `values` in `request`."""
        return [*self.settings, *self.scope.components(), *self.options.components()]

    def request(self, question: str, values: Sequence[Any], earlier: tuple[ChatTurn, ...] = ()) -> Request:
        """Return what the inputs say as a Request; ranges are the engine's to judge."""
        method, passages, percent, temperature, length, documents, whole, *options = values
        return Request(
            question=question.strip(),
            method=method,
            ratio=percent / 100,
            passages=int(passages),
            temperature=float(temperature),
            max_new_tokens=int(length),
            options=self.options.read(method, options),
            documents=tuple(documents or ()),
            earlier=earlier,
            whole=bool(whole),
        )


def build(backend: Backend) -> Composer:
    """Draw and connect the box inside the open Blocks.

    What is the same for every method stands first, so that choosing one moves nothing but its own settings.
    """
    methods = backend.methods()
    known = {each.name: each for each in methods}
    with gr.Column(elem_id="composer", min_width=0):
        with gr.Row(elem_id="ask-row", equal_height=False):
            question = question_box("Question", "Ask your documents…", "question", autofocus=True)
            ask, stop = go_and_stop("Ask", "ask", "stop")
        said = gr.HTML(elem_id="ask-said", js_on_load=None)
        gr.HTML(_toggle(), elem_id="settings-toggle", js_on_load=None)
        with gr.Row(elem_id="settings", equal_height=False):
            method, first = method_choice(methods, "method")
            passages = passages_slider("passages-count")
            ratio = ratio_slider("ratio", _RATIO, first.has_ratio)
            scope = Scope(backend)
            options = Options(methods, first.name)
        with gr.Accordion("Advanced", open=False, elem_id="advanced"), gr.Row():
            temperature = gr.Slider(
                0,
                1.5,
                value=_DEFAULTS.temperature,
                step=0.1,
                label="Temperature",
                info="0 always picks the likeliest word; higher is livelier and less faithful.",
                buttons=[],
                min_width=200,
            )
            length = gr.Slider(
                16,
                1024,
                value=_DEFAULTS.max_new_tokens,
                step=16,
                label="Longest answer, tokens",
                info="The answer ends here at the latest. A token is about three quarters of a word.",
                buttons=[],
                min_width=200,
            )

    def choose(name: str) -> Update:
        chosen = known[name]
        update: Update = {method: gr.update(info=chosen.description), ratio: gr.update(visible=shown(chosen.has_ratio))}
        return update | options.show(name)

    method.change(choose, method, [method, ratio, *options.components()], queue=False, **QUIET)
    return Composer(question, said, [method, passages, ratio, temperature, length], scope, options, ask, stop)


def _toggle() -> Markup:
    """Return the button that a phone shows in the place of the settings."""
    opens = {"data_opens": "kv-settings-open", "aria_expanded": "false", "aria_controls": "settings"}
    return tag("button", "Method and settings", type="button", **opens)
