"""One section of the Settings page: heading and description on the left, inputs on the right."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gradio as gr
from gradio.components import Component

from backend.interface.models import SettingsChange
from ui.events import Update
from ui.html import tag


@contextmanager
def section(name: str, description: str) -> Iterator[None]:
    """Create the heading and open the panel of a section inside the open Blocks."""
    with gr.Row(elem_classes="kv-section", equal_height=False):
        gr.HTML(tag("div", tag("h3", name), tag("p", description, class_="kv-muted")), js_on_load=None)
        with gr.Column(elem_classes="kv-panel", min_width=0):
            yield


def apply_note(
    text: str = "Applying stops running questions and uploads. Documents and the disk cache are kept.",
) -> None:
    """Create the note beside an Apply button about its side effects."""
    gr.HTML(tag("p", text), js_on_load=None)


class SettingInputs:
    """The inputs of one section, by field name of `SettingsChange`.

    overrides  flag or environment variable by field name; such a field is shown but cannot be changed
    """

    def __init__(self, current: SettingsChange, overrides: Mapping[str, str]) -> None:
        self._current = current
        self._overrides = overrides
        self.inputs: dict[str, Component] = {}

    def add(self, kind: Callable[..., Component], name: str, info: str, *args: Any, **kwargs: Any) -> Component:
        """Create the input of one field with its current value."""
        if flag := self._overrides.get(name):
            info = f"Set by {flag} at startup; it cannot be changed here."
            kwargs = {**kwargs, "interactive": False}
        elem_id = f"choice-{name.replace('_', '-')}"
        value = getattr(self._current, name)
        self.inputs[name] = kind(*args, value=value, info=info, elem_id=elem_id, min_width=120, **kwargs)
        return self.inputs[name]

    def components(self) -> list[Component]:
        return list(self.inputs.values())

    def read(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Return the values of `components()` by field name; an emptied input keeps its initial value."""
        result = {}
        for name, value in zip(self.inputs, values, strict=True):
            initial = getattr(self._current, name)
            value = value.strip() if isinstance(value, str) else value
            result[name] = initial if value in (None, "") else type(initial)(value)
        return result

    def show(self, settings: SettingsChange) -> Update:
        """Return the inputs with the values of `settings`."""
        return {component: getattr(settings, name) for name, component in self.inputs.items()}
