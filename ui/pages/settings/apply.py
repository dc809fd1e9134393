"""Applies changed settings and shows the progress of the reload."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from backend.interface.errors import user_message
from backend.interface.models import ModelService, ReloadStatus
from ui.events import QUIET, Update
from ui.html import error_box
from ui.pages.settings.model_info import render_reload
from ui.throttle import coalesce

_POLL_S = 0.15


class SettingsReload:
    """The status line above all sections. A reload affects all sessions and continues when the tab is closed.

    status       the line
    cancel       the button that cancels a download
    get_updates  returns updates of everything else that a reload may change
    """

    def __init__(self, models: ModelService, get_updates: Callable[[], Update]) -> None:
        self._models = models
        self._get_updates = get_updates

    def build(self) -> None:
        """Create the line inside the open Blocks."""
        with gr.Row(elem_id="reload", equal_height=False):
            self.status = gr.HTML(elem_id="reload-status", js_on_load=None)
            self.cancel = gr.Button("Cancel download", size="sm", visible=False, elem_id="reload-cancel")
        self.cancel.click(self._models.cancel_download, None, None, queue=False, **QUIET)

    def components(self) -> list[Any]:
        return [self.status, self.cancel]

    def apply(self, values: Mapping[str, Any]) -> Iterator[Update]:
        """Start a reload with these fields of `SettingsChange`, and follow it."""
        try:
            self._models.apply(replace(self._models.current(), **values))
        except Exception as error:  # noqa: BLE001  the UI's boundary
            yield self._failed(error)
            return
        yield from self.follow("Done. These settings are in use and saved for the next start.")

    def follow(self, success: str = "") -> Iterator[Update]:
        """Show the latest reload until it ends, then `success` unless it failed."""
        try:
            for reload in coalesce(self._poll(), lambda reload: (reload.message, reload.can_stop)):
                yield {self.status: render_reload(reload), self.cancel: gr.Button(visible=reload.can_stop)}
            done = {self.status: render_reload(reload, success), self.cancel: gr.Button(visible=False)}
            yield {**self._get_updates(), **done}
        except Exception as error:  # noqa: BLE001  the UI's boundary
            yield self._failed(error)

    def _failed(self, error: Exception) -> Update:
        return {self.status: error_box(user_message(error)), self.cancel: gr.Button(visible=False)}

    def _poll(self) -> Iterator[ReloadStatus]:
        while (reload := self._models.reload_status()).running:
            yield reload
            time.sleep(_POLL_S)
        yield reload
