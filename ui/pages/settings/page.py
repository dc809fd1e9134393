"""The Settings page: models, chunking, cache, system prompt, appearance and system information."""

from collections.abc import Iterator

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from backend.interface.models import SettingsChange
from ui.cancellation import SessionTasks
from ui.events import QUIET, Update
from ui.html import error_box
from ui.pages.settings import theme_section
from ui.pages.settings.apply import SettingsReload
from ui.pages.settings.cache_section import CacheSection
from ui.pages.settings.chunking_section import ChunkingSection
from ui.pages.settings.model_info import render_models, render_prompt, render_system_info
from ui.pages.settings.models_section import LOADING, ModelsSection
from ui.pages.settings.section import section

_PROMPT = "The instructions before the passages in every prompt (the shared prefix), computed once for all questions."
_ABOUT = "KVScope sends no data to other machines; it only downloads models you ask for."


class Settings:
    """The page. Settings are global; only what a session has entered and not applied yet is per session.

    reload                   the status line, which applies changed settings
    models, chunking, cache  sections
    seen                     State: the settings that this session saw last
    """

    def __init__(self, backend: Backend) -> None:
        self._models = backend.models
        self.reload = SettingsReload(self._models, self._updates)
        self.models = ModelsSection(self._models, self.reload)
        self.chunking = ChunkingSection(backend, self.reload)
        self.cache = CacheSection(backend, self.reload)
        self._sections = (self.models, self.chunking, self.cache)

    def build(self, tab: gr.Tab) -> None:
        """Create and connect the page inside its open tab."""
        with gr.Column(elem_id="settings-page", elem_classes="kv-page", min_width=0):
            self.reload.build()
            for each in self._sections:
                each.build()
            with section("System prompt", _PROMPT):
                gr.HTML(render_prompt(self._models.system_prompt()), elem_id="prompt", js_on_load=None)
            theme_section.build()
            with section("About", _ABOUT):
                self._about = gr.HTML(elem_id="about", js_on_load=None)
            self.seen = gr.State(self._models.current())
        inputs = [component for each in self._sections for component in each.inputs.components()]
        shown = [self.models.loaded, self.chunking.stale, self.chunking.reindex_button, self.cache.usage, self._about]
        outputs = [*self.reload.components(), *inputs, *shown, self.seen]
        for each in self._sections:
            each.wire(outputs)
        tab.select(self.refresh, self.seen, outputs, **LOADING, **QUIET)

    @property
    def tasks(self) -> SessionTasks:
        """Running re-indexing by session. A reload is not included: it is global and continues."""
        return self.chunking.tasks

    def refresh(self, seen: SettingsChange | None) -> Iterator[Update]:
        """Show the current state; unapplied input is kept unless the settings have changed since `seen`."""
        try:
            yield self._updates(seen)
            if self._models.reload_status().running:
                yield from self.reload.follow()
        except Exception as error:  # noqa: BLE001  the UI's boundary
            yield {self.reload.status: error_box(user_message(error))}

    def _updates(self, seen: SettingsChange | None = None) -> Update:
        """Return everything that a reload may have changed."""
        current = self._models.current()
        update: Update = {
            **self.chunking.updates(),
            **self.cache.updates(),
            self.models.loaded: render_models(self._models.loaded()),
            self._about: render_system_info(self._models.system_info()),
            self.seen: current,
        }
        if current != seen:
            for each in self._sections:
                update |= each.inputs.show(current)
        return update
