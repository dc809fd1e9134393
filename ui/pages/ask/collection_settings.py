"""Settings of its own for a collection: remembered by a button, and applied while only this collection is searched."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio as gr
from gradio.components import Component

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from engine.method import MethodInfo
from store.types import COLLECTION
from ui.components.method_options import MethodOptions
from ui.events import INSTANT, Update
from ui.html import error_box, tag

_OF_METHOD = ("method", "recompute_percent", "target", "options")  # left out if the method does not exist any more
_APPLIED = "The settings remembered for this collection are applied."
_REMEMBERED = "Remembered. These settings apply whenever only this collection is searched."

Values = dict[str, Any]  # settings by name, and the method's own as `options`
Before = tuple[str, Values, bool]  # a chosen collection, the settings when it was chosen, and whether its own applied


class CollectionSettings:
    """Two buttons, shown while one collection is chosen; settings are saved under the names of `settings`."""

    def __init__(self, backend: Backend) -> None:
        """Create the buttons inside the open Blocks."""
        self._backend = backend
        self._methods: dict[str, MethodInfo] = {method.name: method for method in backend.methods()}
        with gr.Row(elem_id="collection-settings", visible=False) as self._row:
            look: dict[str, Any] = {"size": "sm", "scale": 0, "min_width": 80}
            self._remember = gr.Button("Remember these settings for this collection", **look)
            self._forget = gr.Button("Forget them", visible=False, **look)
            self._note = gr.HTML(js_on_load=None, min_width=200)

    def connect(
        self,
        documents: gr.Dropdown,
        settings: Mapping[str, Component],
        options: MethodOptions,
        meet_target: Callable[[str, int], tuple[Any, Any]],
    ) -> None:
        """Apply and remember these settings, which include 'method', 'passages', 'recompute_percent' and 'target'."""
        self._settings, self._options, self._meet_target = settings, options, meet_target
        self._before = before = gr.State(None)  # see `Before`
        inputs = [*settings.values(), *options.components()]
        shown = [self._row, self._note, self._forget]
        documents.change(self.follow, [documents, before, *inputs], [before, *shown, *inputs], **INSTANT)
        self._remember.click(self.remember, [documents, *inputs], shown, **INSTANT)
        self._forget.click(self.forget, documents, shown, **INSTANT)

    def follow(self, scope: Sequence[str] | None, before: Before | None, *values: Any) -> Update:
        """Apply what is remembered for the chosen collection; after another choice, return to the settings before it.

        Settings that were changed stay if nothing is remembered for the collection that is left.
        """
        name = _only_collection(scope)
        if name == (before[0] if before else ""):
            return gr.skip()
        base = current = self._read(values)
        if before and (before[2] or self._saved(before[0])):
            base = before[1]
        saved = self._saved(name)
        filled = self._fill({**base, **saved}) if saved or base is not current else {}
        chosen = (name, base, bool(saved)) if name else None
        return {self._before: chosen, **self._show(name, _APPLIED if saved else ""), **filled}

    def remember(self, scope: Sequence[str] | None, *values: Any) -> Update:
        return self._save(_only_collection(scope), self._read(values), _REMEMBERED)

    def forget(self, scope: Sequence[str] | None) -> Update:
        return self._save(_only_collection(scope), {}, "")

    def _save(self, name: str, values: Values, note: str) -> Update:
        if not name:
            return gr.skip()
        try:
            self._backend.library.remember_settings(name, values)
        except Exception as error:  # noqa: BLE001  the UI's boundary
            return {self._note: error_box(user_message(error))}
        return self._show(name, note)

    def _show(self, name: str, note: str) -> Update:
        return {
            self._row: gr.Row(visible=bool(name)),
            self._note: tag("p", note, class_="kv-muted", role="status") if note else "",
            self._forget: gr.Button(visible=bool(self._saved(name))),
        }

    def _saved(self, name: str) -> Values:
        """Return what is remembered for a collection and still valid."""
        saved = self._backend.library.collection_settings(name) if name else {}
        return self._valid(saved) if saved else {}

    def _read(self, values: Sequence[Any]) -> Values:
        """Return the settings from the values of all inputs."""
        named: Values = dict(zip(self._settings, values, strict=False))
        options = self._options.read(str(named["method"]), values[len(named) :])
        return self._valid({**named, "options": options})

    def _valid(self, values: Mapping[str, Any]) -> Values:
        """Return the values that the inputs accept: a method or one of its limits may have changed since."""
        name = values.get("method")
        method = self._methods.get(name) if isinstance(name, str) else None
        valid = {
            key: values[key]
            for key, component in self._settings.items()
            if key in values and (method or key not in _OF_METHOD) and _accepts(component, values[key])
        }
        if method:
            valid["options"] = self._options.valid(method.name, values.get("options"))
        return valid

    def _fill(self, values: Values) -> Update:
        """Set the inputs; a target again chooses the ratio that the model of now needs."""
        update: Update = {self._settings[key]: gr.update(value=values[key]) for key in self._settings if key in values}
        if "method" in values:
            update |= self._options.fill(values["method"], values["options"])
        if values.get("target"):
            ratio, update[self._settings["target"]] = self._meet_target(values["target"], values["passages"])
            if isinstance(ratio, gr.Slider):  # the model is calibrated
                update[self._settings["recompute_percent"]] = ratio
        return update


def _only_collection(scope: Sequence[str] | None) -> str:
    """Return the name of the collection that is the whole scope; '' if it is another one."""
    key = scope[0] if scope and len(scope) == 1 else ""
    return key.removeprefix(COLLECTION) if key.startswith(COLLECTION) else ""


def _accepts(component: Component, value: Any) -> bool:
    if isinstance(component, gr.Slider):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and component.minimum <= value <= component.maximum
    if isinstance(component, gr.Checkbox):
        return isinstance(value, bool)
    choices = [choice for _, choice in getattr(component, "choices", None) or ()]
    return value in choices or (value is None and isinstance(component, gr.Radio))
