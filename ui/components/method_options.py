"""The settings that one method has and others have not, as components: drawn from the methods' data, shown by method.

All are drawn once and hidden until their method is chosen, so that choosing is one small event and what a person has
set is still there when they come back to a method. The ratio is not among them: most methods share it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gradio as gr
from gradio.components import Component

from engine.method import MethodInfo, MethodParam
from ui.components.inputs import shown
from ui.events import Update

Option = float | str | bool


class Options:
    """The components, and what they say."""

    def __init__(self, methods: Iterable[MethodInfo], chosen: str) -> None:
        """Draw them inside the open Blocks, with those of the method `chosen` to be seen."""
        self._drawn = {
            (method.name, setting.name): (setting, _component(method.name, setting, method.name == chosen))
            for method in methods
            for setting in own(method)
        }

    def components(self) -> list[Component]:
        """Return all of them, in the order of `values` in `read`."""
        return [component for _, component in self._drawn.values()]

    def show(self, method: str) -> Update:
        """Show the settings of this method and of no other."""
        return {part: gr.update(visible=shown(owner == method)) for (owner, _), (_, part) in self._drawn.items()}

    def read(self, method: str, values: Sequence[Any]) -> dict[str, Option]:
        """Return the options of this method by name, out of the values of all components."""
        said = zip(self._drawn.items(), values, strict=True)
        return {name: _value(setting, value) for ((owner, name), (setting, _)), value in said if owner == method}


def own(method: MethodInfo) -> list[MethodParam]:
    """Return the method's settings other than the ratio."""
    return [setting for setting in method.params if setting.name != "ratio"]


def unusual(method: MethodInfo, options: Mapping[str, Option]) -> list[str]:
    """Return the options that differ from the method's defaults, each as a few words: 'TextTokenizer at each start: 16'."""
    changed = [setting for setting in own(method) if options.get(setting.name, setting.default) != setting.default]
    return [_words(setting, options[setting.name]) for setting in changed]


def _component(method: str, setting: MethodParam, seen: bool) -> Component:
    shared: dict[str, Any] = {
        "label": setting.label,
        "info": setting.about,
        "value": setting.default,
        "visible": shown(seen),
        "min_width": 120,
        "elem_id": f"option-{method}-{setting.name}",
    }
    if isinstance(setting.default, bool):
        return gr.Checkbox(**shared)
    if isinstance(setting.default, str):
        return gr.Dropdown(list(setting.choices), filterable=False, **shared)
    return gr.Slider(setting.low, setting.high, step=setting.step, buttons=[], **shared)


def _value(setting: MethodParam, value: Any) -> Option:
    """Return what a component says in the setting's own kind: a slider knows no whole numbers."""
    return type(setting.default)(value)


def _words(setting: MethodParam, value: Option) -> str:
    said = value if isinstance(value, str) else ("off", "on")[value] if isinstance(value, bool) else f"{value:g}"
    return f"{setting.label}: {said}"
