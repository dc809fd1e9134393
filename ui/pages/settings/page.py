"""The Settings page: models, passages, memory, prompt, looks, and what KVScope is made of."""

from collections.abc import Iterator

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from backend.interface.models import SettingsChange
from ui.cancellation import SessionTasks
from ui.events import QUIET, Update
from ui.pages.settings import model_info as facts
from ui.pages.settings import theme_section as looks
from ui.pages.settings.apply import Changes
from ui.pages.settings.cache_section import MemorySection
from ui.pages.settings.chunking_section import PassagesSection, Reindexer
from ui.pages.settings.models_section import LOADING, ModelsSection
from ui.pages.settings.section import section

_PROMPT = "What every model is told before the passages: the shared prefix, read once for all questions."
_ABOUT = "Nothing leaves this machine but downloads that you ask for."


class Settings:
    """The page. What a session has seen of the choices is in its State; everything else belongs to the house.

    shelf  cuts documents anew; None leaves that out
    """

    def __init__(self, backend: Backend, shelf: Reindexer | None = None) -> None:
        self._backend, self._desk = backend, backend.models
        self._changes = Changes(self._desk, self._refreshed)
        self._models = ModelsSection(self._desk, self._changes)
        self._passages = PassagesSection(self._desk, self._changes, shelf)
        self._memory = MemorySection(backend, self._changes)
        self._sections = (self._models, self._passages, self._memory)

    def build(self, tab: gr.Tab) -> None:
        """Draw and connect the page inside its open tab."""
        with gr.Column(elem_id="settings-page", elem_classes="kv-page", min_width=0):
            self._changes.build()
            for each in self._sections:
                each.build()
            with section("Prompt", _PROMPT):
                gr.HTML(facts.prompt(self._desk.prompt()), elem_id="prompt", js_on_load=None)
            looks.build()
            with section("About", _ABOUT):
                self._about = gr.HTML(elem_id="about", js_on_load=None)
            self._seen = gr.State(self._desk.wanted())
        controls = [control for each in self._sections for control in each.choices.components()]
        shown = [self._models.loaded, self._passages.cuts, self._passages.again, self._memory.kept, self._about]
        outputs = [*self._changes.components(), *controls, *shown, self._seen]
        for each in self._sections:
            each.wire(outputs)
        tab.select(self.look, self._seen, outputs, **LOADING, **QUIET)

    @property
    def stops(self) -> SessionTasks:
        """What belongs to one session: re-indexing. A change of settings belongs to the house and goes on."""
        return self._passages.stops

    def look(self, seen: SettingsChange) -> Iterator[Update]:
        """Show the house as it is. What a person has set and not yet applied stays, unless others changed something."""
        try:
            yield self._refreshed(seen)
            if self._desk.changing().running:
                yield from self._changes.follow()
        except Exception as error:  # noqa: BLE001  the page's border
            yield {self._changes.line: facts.error(user_message(error))}

    def _refreshed(self, seen: SettingsChange | None = None) -> Update:
        """Return everything that a change may have changed, as it is now."""
        wanted = self._desk.wanted()
        update: Update = {
            **self._passages.refreshed(),
            **self._memory.refreshed(),
            self._models.loaded: facts.loaded(self._desk.loaded()),
            self._about: facts.about(self._desk.system_info()),
            self._seen: wanted,
        }
        if wanted != seen:
            for each in self._sections:
                update |= each.choices.show(wanted)
        return update
