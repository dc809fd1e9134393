"""A change of settings as the page sees it: begun, followed line by line, and told how it ended."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from backend.interface.errors import user_message
from backend.interface.models import ModelService, ReloadStatus
from ui.events import QUIET, Update
from ui.pages.settings import model_info as facts
from ui.throttle import coalesce

PACE_S = 0.15


class Changes:
    """The line above all sections. A change belongs to the house: it goes on when the tab is closed.

    refreshed  returns everything else that a change may have changed
    """

    def __init__(self, desk: ModelService, refreshed: Callable[[], Update]) -> None:
        self._desk, self._refreshed = desk, refreshed

    def build(self) -> None:
        """Draw the line inside the open Blocks."""
        with gr.Row(elem_id="change", equal_height=False):
            self.line = gr.HTML(elem_id="change-line", js_on_load=None)
            self.cancel = gr.Button("Stop the download", size="sm", visible=False, elem_id="change-stop")
        self.cancel.click(self._desk.stop, None, None, queue=False, **QUIET)

    def components(self) -> list[Any]:
        return [self.line, self.cancel]

    def make(self, values: Mapping[str, Any]) -> Iterator[Update]:
        """Begin a change to these values of `Wanted`, and follow it."""
        try:
            self._desk.change(replace(self._desk.wanted(), **values))
        except Exception as error:  # noqa: BLE001  the page's border
            yield {self.line: facts.error(user_message(error)), self.cancel: gr.Button(visible=False)}
            return
        yield from self.follow("Done. This is in use now, and at the next start.")

    def follow(self, done: str = "") -> Iterator[Update]:
        """Tell how far the latest change is until it has ended. `done` is said if it went well."""
        try:
            for change in coalesce(self._steps(), lambda change: (change.line, change.stoppable)):
                yield {self.line: facts.changing(change), self.cancel: gr.Button(visible=change.stoppable)}
            yield {**self._refreshed(), self.line: facts.changing(change, done), self.cancel: gr.Button(visible=False)}
        except Exception as error:  # noqa: BLE001  the page's border
            yield {self.line: facts.error(user_message(error)), self.cancel: gr.Button(visible=False)}

    def _steps(self) -> Iterator[ReloadStatus]:
        while (change := self._desk.changing()).running:
            yield change
            time.sleep(PACE_S)
        yield change
