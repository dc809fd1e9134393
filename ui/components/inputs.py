"""Inputs that several pages have: question box, run and stop buttons, method, number of passages, recompute ratio."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import gradio as gr

from engine.method import MethodInfo, default_method
from engine.request import Request
from ui.events import Update

_DEFAULTS = Request(question="")
BESIDE_BOX: dict[str, Any] = {"scale": 0, "min_width": 92}  # buttons to the right of the question box
_PASSAGES = "Number of retrieved passages the model reads (top-k)."


def question_box(label: str, placeholder: str, elem_id: str, autofocus: bool = False) -> gr.Textbox:
    """Return the text box for a question."""
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
        elem_id=elem_id,
    )


class RunButtons(NamedTuple):
    """The button that starts the work, and the Stop button that replaces it while the work runs."""

    run: gr.Button
    stop: gr.Button

    def show(self, running: bool) -> Update:
        return {self.run: gr.Button(visible=not running), self.stop: gr.Button(visible=running)}


def run_buttons(label: str, run_id: str, stop_id: str, **layout: Any) -> RunButtons:
    """Return both buttons, with Stop hidden."""
    return RunButtons(
        gr.Button(label, variant="primary", elem_id=run_id, **layout),
        gr.Button("Stop", variant="stop", visible=False, elem_id=stop_id, **layout),
    )


def passages_slider(elem_id: str) -> gr.Slider:
    """Return the slider for the number of retrieved passages."""
    return _slider(1, 16, _DEFAULTS.passages, "Passages", _PASSAGES, elem_id)


def ratio_slider(elem_id: str, info: str, visible: bool, label: str = "Recompute %") -> gr.Slider:
    """Return the slider for the recompute ratio in percent; `visible` says whether the chosen method has a ratio."""
    return _slider(0, 100, _DEFAULTS.recompute_ratio * 100, label, info, elem_id, visible)


def method_choice(methods: Sequence[MethodInfo], elem_id: str) -> gr.Dropdown:
    """Return the dropdown of methods, with the default one selected."""
    default = default_method(methods)
    return gr.Dropdown(
        [(method.label, method.name) for method in methods],
        value=default.name,
        label="Method",
        info=default.description,
        filterable=False,
        min_width=120,
        elem_id=elem_id,
    )


def visibility(visible: bool) -> Any:
    """Return Gradio's `visible` value; "hidden" keeps the component in the page, and with it the user's setting."""
    return True if visible else "hidden"


def _slider(
    low: float, high: float, value: float, label: str, info: str | None, elem_id: str, visible: bool = True
) -> gr.Slider:
    look: dict[str, Any] = {"buttons": [], "visible": visibility(visible), "min_width": 120}
    return gr.Slider(low, high, value=value, step=1, label=label, info=info, elem_id=elem_id, **look)
