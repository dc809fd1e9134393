"""The inputs that several pages have: a question with its two buttons, passages, method, recompute ratio."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from engine.method import MethodInfo, default_method
from engine.request import Request

_DEFAULTS = Request(question="")
_PASSAGES = "How many of the best matches the model reads."


def question_box(label: str, placeholder: str, name: str, autofocus: bool = False) -> gr.Textbox:
    """Return the box for a question; `name` is its id."""
    return gr.Textbox(
        label=label,
        placeholder=placeholder,
        show_label=False,
        container=False,
        lines=1,
        max_lines=8,
        autofocus=autofocus,
        scale=1,
        min_width=120,
        elem_id=name,
    )


def go_and_stop(label: str, go: str, stop: str) -> tuple[gr.Button, gr.Button]:
    """Return the button that starts the work and the one that takes its place meanwhile, by their ids."""
    return (
        gr.Button(label, variant="primary", scale=0, min_width=92, elem_id=go),
        gr.Button("Stop", variant="stop", scale=0, min_width=92, visible=False, elem_id=stop),
    )


def passages_slider(name: str, info: str | None = _PASSAGES) -> gr.Slider:
    """Return the slider for how many passages are read."""
    return _slider(1, 16, _DEFAULTS.passages, "Passages", info, name)


def ratio_slider(name: str, info: str, seen: bool) -> gr.Slider:
    """Return the slider for the recompute ratio, in per cent; `seen` says whether the chosen method has one."""
    return _slider(0, 100, _DEFAULTS.ratio * 100, "Recompute %", info, name, seen)


def method_choice(methods: Sequence[MethodInfo], name: str) -> tuple[gr.Dropdown, MethodInfo]:
    """Return the list of methods, and the one that is chosen at first."""
    first = default_method(methods)
    choices = [(each.label, each.name) for each in methods]
    drawn = gr.Dropdown(
        choices, value=first.name, label="Method", info=first.description, filterable=False, min_width=120, elem_id=name
    )
    return drawn, first


def shown(seen: bool) -> Any:
    """Return Gradio's word for a component that is seen, or hidden in place, where it keeps what it was set to."""
    return True if seen else "hidden"


def _slider(
    low: float, high: float, value: float, label: str, info: str | None, name: str, seen: bool = True
) -> gr.Slider:
    return gr.Slider(
        low,
        high,
        value=value,
        step=1,
        label=label,
        info=info,
        buttons=[],
        visible=shown(seen),
        min_width=120,
        elem_id=name,
    )
