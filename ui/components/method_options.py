"""Inputs for the parameters that only one method has, generated from `MethodInfo.params`.

All inputs are created once, and all but the chosen method's are hidden, so that settings survive switching to another
method and back. The recompute ratio is not among them, because most methods share it.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import gradio as gr
from gradio.components import Component

from engine.method import MethodInfo, MethodParam
from ui.components.inputs import visibility
from ui.events import Update

Option = float | str | bool


class MethodOptions:
    """The inputs of all methods."""

    def __init__(self, methods: Iterable[MethodInfo], chosen: str) -> None:
        """Create the inputs inside the open Blocks; those of the method `chosen` are visible."""
        self._inputs = {
            _component(method.name, param, method.name == chosen): (method.name, param)
            for method in methods
            for param in extra_params(method)
        }

    def components(self) -> list[Component]:
        """Return all inputs, in the order of `values` in `read`."""
        return list(self._inputs)

    def show(self, method: str) -> Update:
        """Show the inputs of `method` and hide all others."""
        return {each: gr.update(visible=visibility(owner == method)) for each, (owner, _) in self._inputs.items()}

    def read(self, method: str, values: Sequence[Any]) -> dict[str, Option]:
        """Return the options of `method` by name, from the values of all inputs."""
        return {
            param.name: type(param.default)(value)  # sliders send floats for whole numbers
            for (owner, param), value in zip(self._inputs.values(), values, strict=True)
            if owner == method
        }

    def valid(self, method: str, options: Any) -> dict[str, Option]:
        """Return those of a method's saved options, by name, that it still has and accepts."""
        valid: dict[str, Option] = {}
        for owner, param in self._inputs.values() if isinstance(options, dict) else ():
            if owner == method and param.name in options:
                with suppress(ValueError):
                    param.validate(options[param.name])
                    valid[param.name] = options[param.name]
        return valid

    def fill(self, method: str, options: Mapping[str, Option]) -> Update:
        """Set the inputs of a method's options, given by name."""
        return {
            component: gr.update(value=options[param.name])
            for component, (owner, param) in self._inputs.items()
            if owner == method and param.name in options
        }


def extra_params(method: MethodInfo) -> list[MethodParam]:
    """Return the method's parameters except the recompute ratio."""
    return [param for param in method.params if param.name != "ratio"]


def non_default_options(method: MethodInfo, options: Mapping[str, Option]) -> list[str]:
    """Return the options that differ from the method's defaults as text: 'Tokens at each start: 16'."""
    return [
        f"{param.label}: {_format(options[param.name])}"
        for param in extra_params(method)
        if options.get(param.name, param.default) != param.default
    ]


def _component(method: str, param: MethodParam, visible: bool) -> Component:
    shared: dict[str, Any] = {
        "label": param.label,
        "info": param.description,
        "value": param.default,
        "visible": visibility(visible),
        "min_width": 120,
        "elem_id": f"option-{method}-{param.name}",
    }
    if isinstance(param.default, bool):
        return gr.Checkbox(**shared)
    if isinstance(param.default, str):
        return gr.Dropdown(list(param.choices), filterable=False, **shared)
    return gr.Slider(param.low, param.high, step=param.step, buttons=[], **shared)


def _format(value: Option) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return value if isinstance(value, str) else f"{value:g}"
