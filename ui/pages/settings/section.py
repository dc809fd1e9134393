"""What the sections of the Settings page share: heading and description on the left, inputs on the right."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gradio as gr
from gradio.components import Component

from backend.interface.models import ModelService, SettingsChange
from ui.events import QUIET, Update
from ui.html import tag

RELOAD_QUEUE: dict[str, Any] = {"concurrency_id": "settings", "concurrency_limit": 4, **QUIET}
APPLY_NOTE = "Applying stops running questions and uploads. Documents and the disk cache are kept."


@contextmanager
def section(name: str, description: str) -> Iterator[None]:
    """Create the heading of a section, and open the panel beside it for its inputs."""
    with gr.Row(elem_classes="kv-section", equal_height=False):
        gr.HTML(tag("div", tag("h3", name), tag("p", description, class_="kv-muted")), js_on_load=None)
        with gr.Column(elem_classes="kv-panel", min_width=0):
            yield


class SettingInputs:
    """The inputs of one section: `components` by field name of `SettingsChange`."""

    def __init__(self, models: ModelService) -> None:
        self._current = models.current()
        self._overrides = models.overrides()
        self.components: dict[str, Component] = {}

    def add(self, kind: Callable[..., Component], name: str, info: str, *args: Any, **kwargs: Any) -> None:
        """Create the input of one field with its current value; one set by a flag or variable cannot be changed."""
        if flag := self._overrides.get(name):
            info = f"Set by {flag} at startup; it cannot be changed here."
            kwargs["interactive"] = False
        elem_id = f"choice-{name.replace('_', '-')}"
        value = getattr(self._current, name)
        self.components[name] = kind(*args, value=value, info=info, elem_id=elem_id, min_width=120, **kwargs)

    def read(self, values: Sequence[Any], seen: SettingsChange) -> dict[str, Any]:
        """Return by field name the values that differ from `seen`, what the session saw last.

        What another session has changed meanwhile stays so. An emptied input changes nothing.
        """
        changes = {}
        for name, value in zip(self.components, values, strict=True):
            before = getattr(seen, name)
            value = value.strip() if isinstance(value, str) else value
            if value not in (None, "") and type(before)(value) != before:
                changes[name] = type(before)(value)
        return changes

    def show(
        self, settings: SettingsChange, seen: SettingsChange | None = None, applied: Collection[str] = ()
    ) -> Update:
        """Return the inputs with the values of `settings`; with `seen`, those changed since and those `applied`."""
        return {
            component: getattr(settings, name)
            for name, component in self.components.items()
            if seen is None or name in applied or getattr(settings, name) != getattr(seen, name)
        }
