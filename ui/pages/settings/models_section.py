"""The section for models: what is loaded, what another would take, and loading it; asked again if memory is short."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gradio as gr

from backend.interface.errors import user_message
from backend.interface.models import MemoryEstimate, ModelService
from ui.events import QUIET, Update
from ui.html import Markup, join, tag
from ui.pages.settings import model_info as facts
from ui.pages.settings.apply import Changes
from ui.pages.settings.section import Choices, section, stops_questions

LOADING: dict[str, Any] = {"concurrency_id": "settings", "concurrency_limit": 4}
_ABOUT = (
    "A folder in Hugging Face format, or a name on the hub, fetched when it is loaded. Llama, Qwen2, Qwen3 and Mistral "
    "shapes work. A model's keys and values stay on disk, and are found again when it comes back."
)


class ModelsSection:
    """Draws and connects the section. `changes` carries out what is chosen here."""

    def __init__(self, desk: ModelService, changes: Changes) -> None:
        self._desk, self._changes = desk, changes
        self.choices = Choices(desk.wanted(), desk.overridden())

    def build(self) -> None:
        """Draw the section inside the open Blocks."""
        offered = self._desk.suggestions()
        add = self.choices.add
        free: dict[str, Any] = {"allow_custom_value": True, "filterable": True}
        with section("Models", _ABOUT):
            self.loaded = gr.HTML(facts.loaded(self._desk.loaded()), elem_id="models-loaded", js_on_load=None)
            with gr.Row(elem_classes="kv-fields"):
                add(gr.Dropdown, "model", "Writes the answer.", offered, label="Model that answers", **free)
                says = "Small, on the CPU; the same name as above shares its weights."
                add(gr.Dropdown, "auxiliary", says, offered, label="Model that chooses", **free)
            with gr.Row(elem_classes="kv-fields"):
                formats = [("Best for this machine", "auto"), ("16-bit (bf16)", "bf16"), ("32-bit (fp32)", "fp32")]
                add(gr.Dropdown, "dtype", "16-bit numbers take half the memory.", formats, label="Number format")
                places = [("Best for this machine", "auto"), *((name, name) for name in self._desk.devices()[1:])]
                add(gr.Dropdown, "device", "Where the model that answers runs.", places, label="Device")
            with gr.Accordion("Adapters and reranker", open=False, elem_classes="kv-more"):
                says = "Finetuned adapter of the model: auto (the shipped one), off, or a folder."
                add(gr.Textbox, "reader", says, label="Reader", lines=1)
                says = "Tells the reader where to look: auto (the shipped one), off, or a folder."
                add(gr.Textbox, "pointer", says, label="Pointer", lines=1)
                says = "Chooses in CacheClip trained: auto (the shipped one), off, or a folder."
                add(gr.Textbox, "selector", says, label="Selector", lines=1)
                says = "Cross-encoder that orders what was found: off, a folder, or a name on the hub."
                add(gr.Textbox, "reranker", says, label="Reranker", lines=1)
            self.found = gr.HTML(elem_id="models-found", js_on_load=None)
            with gr.Row(elem_classes="kv-actions"):
                self._check = gr.Button("Check", elem_id="models-check", min_width=100, scale=0)
                self._load = gr.Button("Load", variant="primary", elem_id="models-load", min_width=100, scale=0)
                self._anyway = gr.Button("Load anyway", variant="stop", visible=False, elem_id="models-anyway", scale=0)
                self._keep = gr.Button("Keep what is loaded", visible=False, elem_id="models-keep", scale=0)
                stops_questions()

    def wire(self, outputs: list[Any]) -> None:
        """Connect the buttons; a change may touch any of `outputs`."""
        inputs, asked = self.choices.components(), [self.found, self._check, self._load, self._anyway, self._keep]
        self._check.click(self.check, inputs, asked, **LOADING, **QUIET)
        self._load.click(self.load, inputs, [*outputs, *asked], **LOADING, **QUIET)
        self._anyway.click(self.load_anyway, inputs, [*outputs, *asked], **LOADING, **QUIET)
        self._keep.click(self.keep, None, asked, queue=False, **QUIET)

    def check(self, *values: Any) -> Iterator[Update]:
        """Say what the chosen models are and take."""
        yield {self.found: tag("p", "Looking", class_="kv-change", role="status"), **self._asking(False)}
        try:
            found = self._look(self.choices.read(values), every=True)
            yield {self.found: join(*map(facts.footprint, found))}
        except Exception as error:  # noqa: BLE001  the page's border
            yield {self.found: facts.error(user_message(error))}

    def load(self, *values: Any) -> Iterator[Update]:
        """Change to the chosen models; where memory is short, ask first."""
        chosen = self.choices.read(values)
        try:
            short = [found for found in self._look(chosen) if found.short]
        except Exception as error:  # noqa: BLE001  the page's border
            yield {self.found: facts.error(user_message(error)), **self._asking(False)}
            return
        if short:
            yield {self.found: _doubtful(short), **self._asking(True)}
            return
        yield from self._begin(chosen)

    def load_anyway(self, *values: Any) -> Iterator[Update]:
        """Change to the chosen models although memory is short."""
        yield from self._begin(self.choices.read(values))

    def keep(self) -> Update:
        """Leave everything as it is."""
        return {self.found: "", **self._asking(False)}

    def _begin(self, chosen: dict[str, Any]) -> Iterator[Update]:
        yield {self.found: "", **self._asking(False)}
        yield from self._changes.make(chosen)

    def _look(self, chosen: dict[str, Any], every: bool = False) -> list[MemoryEstimate]:
        """Check the chosen models: those that would change, or every one; the same name only once."""
        used = self._desk.wanted()
        wanted = replace(used, **chosen)
        found: dict[str, MemoryEstimate] = {}
        for role, name, now in (("primary", wanted.model, used.model), ("auxiliary", wanted.auxiliary, used.auxiliary)):
            moved = name != now or (role == "primary" and (wanted.device, wanted.dtype) != (used.device, used.dtype))
            if name not in found and (moved or (every and role == "primary")):
                found[name] = self._desk.check(name, role, wanted)
        return list(found.values())

    def _asking(self, asking: bool) -> Update:
        """Show the buttons of a question, or the usual ones."""
        return {
            self._check: gr.Button(visible=not asking),
            self._load: gr.Button(visible=not asking),
            self._anyway: gr.Button(visible=asking),
            self._keep: gr.Button(visible=asking),
        }


def _doubtful(short: list[MemoryEstimate]) -> Markup:
    question = "There may not be enough memory: the system may slow down or end KVScope. Load it all the same?"
    return join(*map(facts.footprint, short), tag("p", question, class_="kv-warning", role="alert"))
