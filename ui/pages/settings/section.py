"""What the sections of the Settings page share: layout, inputs, and the line that shows how changes are applied."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import gradio as gr
from gradio.components import Component

from backend.interface.errors import user_message
from backend.interface.models import ModelService, SettingsChange
from ui.events import QUIET, Update
from ui.html import error_box, tag
from ui.pages.settings.model_info import render_reload

RELOAD_QUEUE: dict[str, Any] = {"concurrency_id": "settings", "concurrency_limit": 4, **QUIET}
APPLY_NOTE = "Applying stops running questions and uploads. Documents and the disk cache are kept."
_DONE = "Done. These settings are in use and saved for the next start."
_POLL_S = 0.15


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

    def read(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Return the values of all components by field name; an emptied input keeps its initial value."""
        result = {}
        for name, value in zip(self.components, values, strict=True):
            initial = getattr(self._current, name)
            value = value.strip() if isinstance(value, str) else value
            result[name] = initial if value in (None, "") else type(initial)(value)
        return result

    def show(self, settings: SettingsChange) -> Update:
        """Return the inputs with the values of `settings`."""
        return {component: getattr(settings, name) for name, component in self.components.items()}


class SettingsReload:
    """The status line above all sections. A reload affects all sessions and continues when the tab is closed.

    get_updates  returns updates of everything else that a reload may change
    """

    def __init__(self, models: ModelService, get_updates: Callable[[], Update]) -> None:
        """Create the line inside the open Blocks."""
        self._models = models
        self._get_updates = get_updates
        with gr.Row(elem_id="reload", equal_height=False):
            self.status = gr.HTML(elem_id="reload-status", js_on_load=None)
            self.cancel = gr.Button("Cancel download", size="sm", visible=False, elem_id="reload-cancel")
        self.cancel.click(models.cancel_download, None, None, queue=False, **QUIET)

    def apply_on_click(self, button: gr.Button, inputs: SettingInputs, outputs: list[Any]) -> None:
        """Let a button apply the settings of one section."""

        def apply(*values: Any) -> Iterator[Update]:
            yield from self.follow(inputs.read(values))

        button.click(apply, list(inputs.components.values()), outputs, **RELOAD_QUEUE)

    def follow(self, changes: Mapping[str, Any] | None = None) -> Iterator[Update]:
        """Show the latest reload until it ends; with `changes`, fields of `SettingsChange`, start it first."""
        try:
            if changes is not None:
                self._models.apply(replace(self._models.current(), **changes))
            while (reload := self._models.reload_status()).running:
                yield {self.status: render_reload(reload), self.cancel: gr.Button(visible=reload.can_stop)}
                time.sleep(_POLL_S)
            status = render_reload(reload, "" if changes is None else _DONE)
            yield {**self._get_updates(), self.status: status, self.cancel: gr.Button(visible=False)}
        except Exception as error:  # noqa: BLE001  the UI's boundary
            yield {self.status: error_box(user_message(error)), self.cancel: gr.Button(visible=False)}
