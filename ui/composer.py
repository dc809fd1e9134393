"""The question box and the settings beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import gradio as gr
from gradio.components import Component

from engine.answer import Request
from engine.setting import Method
from ui.events import QUIET, Update
from ui.options import Option, Options, shown

_DEFAULTS = Request(question="")


@dataclass(frozen=True, slots=True)
class Composer:
    """Its components; `settings` are the inputs of a question, in the order of `request_of`.

    options  what only the chosen method has
    """

    question: gr.Textbox
    settings: list[Component]
    options: Options
    ask: gr.Button
    stop: gr.Button


def build(methods: Sequence[Method]) -> Composer:
    """Draw and connect the box inside the open Blocks.

    What is the same for every method stands first, so that choosing one moves nothing but its own settings.
    """
    known = {each.name: each for each in methods}
    first = known.get(_DEFAULTS.method, methods[0])
    with gr.Column(elem_id="composer", min_width=0):
        with gr.Row(elem_id="ask-row", equal_height=False):
            question = gr.Textbox(
                label="Question",
                placeholder="Ask your documents…",
                show_label=False,
                container=False,
                lines=1,
                max_lines=8,
                autofocus=True,
                scale=1,
                min_width=120,
                elem_id="question",
            )
            ask = gr.Button("Ask", variant="primary", scale=0, min_width=92, elem_id="ask")
            stop = gr.Button("Stop", variant="stop", scale=0, min_width=92, visible=False, elem_id="stop")
        with gr.Row(elem_id="settings", equal_height=False):
            method = gr.Dropdown(
                [(each.label, each.name) for each in methods],
                value=first.name,
                label="Method",
                info=first.about,
                filterable=False,
                min_width=120,
                elem_id="method",
            )
            passages = gr.Slider(
                1,
                16,
                value=_DEFAULTS.passages,
                step=1,
                label="Passages",
                info="How many of the best matches the model reads.",
                buttons=[],
                min_width=120,
                elem_id="passages-count",
            )
            ratio = gr.Slider(
                0,
                100,
                value=_DEFAULTS.ratio * 100,
                step=1,
                label="Recompute %",
                info="Share of the passages computed again. Less is faster; more is closer to a full reading.",
                buttons=[],
                visible=shown(first.has_ratio),
                min_width=120,
                elem_id="ratio",
            )
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
        update: Update = {method: gr.update(info=chosen.about), ratio: gr.update(visible=shown(chosen.has_ratio))}
        return update | options.show(name)

    method.change(choose, method, [method, ratio, *options.components()], queue=False, **QUIET)
    return Composer(question, [method, ratio, passages, temperature, length], options, ask, stop)


def request_of(
    question: str,
    method: str,
    percent: float,
    passages: float,
    temperature: float,
    length: float,
    options: Mapping[str, Option],
) -> Request:
    """Return what the sliders say as a Request; ranges are the engine's to judge."""
    return Request(
        question=question.strip(),
        method=method,
        ratio=percent / 100,
        passages=int(passages),
        temperature=float(temperature),
        max_new_tokens=int(length),
        options=options,
    )
