"""One section of the Settings page: what it is about on the left, its controls on the right."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gradio as gr
from gradio.components import Component

from backend.interface.models import SettingsChange
from ui.events import Update
from ui.html import tag


@contextmanager
def section(name: str, about: str) -> Iterator[None]:
    """Draw the heading and open the panel of a section inside the open Blocks."""
    with gr.Row(elem_classes="kv-section", equal_height=False):
        gr.HTML(tag("div", tag("h3", name), tag("p", about, class_="kv-muted")), js_on_load=None)
        with gr.Column(elem_classes="kv-panel", min_width=0):
            yield


def stops_questions(what: str = "Stops") -> None:
    """Draw, beside a button that applies something, what that does to others."""
    said = f"{what} questions and files that are under way. Documents stay, and keys and values on disk."
    gr.HTML(tag("p", said), js_on_load=None)


class Choices:
    """The controls of one section, each under the name of its choice in `Wanted`.

    fixed  the flag or variable that fixes a choice, by the choice's name: its control is shown and cannot be moved
    """

    def __init__(self, wanted: SettingsChange, fixed: Mapping[str, str]) -> None:
        self._wanted, self._fixed = wanted, fixed
        self._controls: dict[str, Component] = {}

    def add(self, kind: Callable[..., Component], name: str, info: str, *given: Any, **named: Any) -> Component:
        """Draw one control with the value in use."""
        if flag := self._fixed.get(name):
            info, named = f"Fixed by {flag} when KVScope was started.", {**named, "interactive": False}
        value = getattr(self._wanted, name)
        elem_id = f"choice-{name.replace('_', '-')}"
        self._controls[name] = kind(*given, value=value, info=info, elem_id=elem_id, min_width=120, **named)
        return self._controls[name]

    def components(self) -> list[Component]:
        return list(self._controls.values())

    def read(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Return the values of `components()` by name; what was emptied keeps the value that was shown first."""
        found = {}
        for name, value in zip(self._controls, values, strict=True):
            usual = getattr(self._wanted, name)
            value = value.strip() if isinstance(value, str) else value
            found[name] = usual if value in (None, "") else type(usual)(value)
        return found

    def show(self, wanted: SettingsChange) -> Update:
        """Return the controls with these values."""
        return {control: getattr(wanted, name) for name, control in self._controls.items()}
