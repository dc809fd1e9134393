"""The Models section: loaded models, memory estimates, and loading others, with a confirmation if memory is short."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import gradio as gr

from backend.interface.errors import user_message
from backend.interface.models import MemoryEstimate, ModelService, SettingsChange
from ui.events import INSTANT, Update
from ui.html import error_box, join, tag
from ui.pages.settings.model_info import render_estimate, render_models
from ui.pages.settings.presets import render_presets
from ui.pages.settings.section import APPLY_NOTE, RELOAD_QUEUE, SettingInputs, section

_DESCRIPTION = (
    "A folder in Hugging Face format, or a name on the Hugging Face hub, which is downloaded when you load it. Llama, "
    "Qwen2, Qwen3 and Mistral architectures are supported. The cache of each model stays on disk and is reused when "
    "you load the model again."
)
_PRESETS = "One click loads a model and downloads it first if necessary. If that fails, the current one stays in use."
_ADAPTERS = ("lora_adapter", "span_scorer", "token_selector")
_CONNECT_PRESETS = "kvscopeDocuments.connectList(element, trigger, watch);"
_SHOW_ESTIMATE = """watch("value", () => element.querySelector("p")?.scrollIntoView({ block: "nearest" }));"""
_AUXILIARY = "Small model on the CPU that selects tokens. With the same name, both share their weights."
_SPAN_SCORER = "Trained head that finds answer spans: auto (the bundled one), off, or a folder."
_SELECTOR = "Trained head that selects tokens in 'CacheClip trained': auto (the bundled one), off, or a folder."
_EMBEDDER = "Searches by meaning. Another one embeds all passages again, in the background; words find them meanwhile."
_EMBEDDERS = [
    ("all-MiniLM-L6-v2 (bundled, English)", "auto"),
    ("multilingual-e5-small (about 100 languages)", "intfloat/multilingual-e5-small"),
]
_RERANKER = "Cross-encoder that reorders the retrieved passages: off, a folder, or a name on the hub."
_LORA = (
    "Fine-tuned adapter of the main model: auto (the bundled one), plain (trained without reused KV, to see how reuse "
    "fails), off, or a folder."
)
_DTYPE = "16-bit numbers take half the memory."
_SHORT = "There may not be enough memory: the system may slow down or end KVScope. Load it anyway?"


class ModelsSection:
    """The section: `loaded` models, `presets` to load by one click, `estimates` of the chosen models' memory."""

    def __init__(
        self, models: ModelService, apply: Callable[[SettingsChange, dict[str, Any]], Iterator[Update]]
    ) -> None:
        """Create the section inside the open Blocks."""
        self._models = models
        self._apply = apply
        self.inputs = SettingInputs(models)
        add = self.inputs.add
        names = models.suggestions()
        dtypes = [("Automatic", "auto"), ("16-bit (bf16)", "bf16"), ("32-bit (fp32)", "fp32")]
        devices = [("Automatic", "auto"), *((name, name) for name in models.devices()[1:])]
        fixed: dict[str, Any] = {"filterable": False}
        custom: dict[str, Any] = {"allow_custom_value": True, "filterable": True}
        shown: dict[str, Any] = {"min_width": 100, "scale": 0}
        hidden: dict[str, Any] = {"visible": False, "scale": 0}
        with section("Models", _DESCRIPTION):
            self.loaded = gr.HTML(render_models(models.loaded()), elem_id="models-loaded", js_on_load=None)
            gr.HTML(join(tag("h4", "Presets"), tag("p", _PRESETS, class_="kv-muted")), js_on_load=None)
            presets = render_presets(models.presets(), models.overrides().get("model", ""))
            self.presets = gr.HTML(presets, elem_id="models-presets", js_on_load=_CONNECT_PRESETS)
            gr.HTML(tag("h4", "Other models"), js_on_load=None)
            with gr.Row(elem_classes="kv-fields"):
                add(gr.Dropdown, "model", "The main model: writes the answer.", names, label="Answer model", **custom)
                add(gr.Dropdown, "auxiliary_model", _AUXILIARY, names, label="Auxiliary model", **custom)
            with gr.Row(elem_classes="kv-fields"):
                add(
                    gr.Dropdown,
                    "dtype",
                    "16-bit numbers take half the memory.",
                    dtypes,
                    label="Compute precision",
                    **fixed,
                )
                add(gr.Dropdown, "device", "Where the main model runs.", devices, label="Device", **fixed)
                add(gr.Dropdown, "embedding_model", _EMBEDDER, _EMBEDDERS, label="Search model", **custom)
            with gr.Accordion("Adapters and reranker", open=False, elem_classes="kv-more"):
                add(gr.Textbox, "lora_adapter", _LORA, label="LoRA adapter", lines=1)
                add(gr.Textbox, "span_scorer", _SPAN_SCORER, label="Span scorer", lines=1)
                add(gr.Textbox, "token_selector", _SELECTOR, label="Token selector", lines=1)
                add(gr.Textbox, "reranker", _RERANKER, label="Reranker", lines=1)
            self.estimates = gr.HTML(elem_id="models-estimate", js_on_load=_SHOW_ESTIMATE)
            with gr.Row(elem_classes="kv-actions"):
                self.check_button = gr.Button("Check memory", elem_id="models-check", **shown)
                self.load_button = gr.Button("Load", variant="primary", elem_id="models-load", **shown)
                self.load_anyway_button = gr.Button("Load anyway", variant="stop", elem_id="models-anyway", **hidden)
                self.cancel_button = gr.Button("Cancel", elem_id="models-cancel", **hidden)
                gr.HTML(tag("p", APPLY_NOTE), js_on_load=None)

    def connect(self, seen: gr.State, outputs: list[Any]) -> None:
        """Connect the buttons; a reload may update any of `outputs`. `seen` has the settings the session saw last."""
        inputs = [seen, *self.inputs.components.values()]
        own = [self.estimates, self.check_button, self.load_button, self.load_anyway_button, self.cancel_button]
        self.check_button.click(self.check, inputs, own, **RELOAD_QUEUE)
        self.load_button.click(self.load, inputs, [*outputs, *own], **RELOAD_QUEUE)
        self.load_anyway_button.click(self.load_anyway, inputs, [*outputs, *own], **RELOAD_QUEUE)
        self.cancel_button.click(self.show, None, own, **INSTANT)
        self.presets.click(self.load_preset, None, [*outputs, *own], **RELOAD_QUEUE)

    def updates(self) -> Update:
        """Return the loaded models and the presets as they are now."""
        fixed_by = self._models.overrides().get("model", "")
        return {
            self.loaded: render_models(self._models.loaded()),
            self.presets: render_presets(self._models.presets(), fixed_by),
        }

    def load_preset(self, event: gr.EventData) -> Iterator[Update]:
        """Choose a preset as the main model, without adapters that were trained for another one, and load it."""
        data: dict[str, Any] = event._data
        current = self._models.current()
        adapters: dict[str, Any] = {name: "auto" for name in _ADAPTERS if getattr(current, name) != "off"}
        chosen = self.inputs.show(replace(current, model=str(data.get("id")), **adapters))
        yield chosen
        yield from self.load(current, *chosen.values())

    def check(self, seen: SettingsChange, *values: Any) -> Iterator[Update]:
        """Show the memory estimates of the chosen models."""
        yield self.show(tag("p", "Checking…", class_="kv-change", role="status"))
        try:
            estimates = self._estimate(self.inputs.read(values, seen), include_unchanged=True)
            yield {self.estimates: join(*map(render_estimate, estimates))}
        except Exception as error:  # noqa: BLE001  the UI's boundary
            yield {self.estimates: error_box(user_message(error))}

    def load(self, seen: SettingsChange, *values: Any) -> Iterator[Update]:
        """Load the chosen models; ask for confirmation first if memory is short."""
        try:
            estimates = self._estimate(self.inputs.read(values, seen))
        except Exception as error:  # noqa: BLE001  the UI's boundary
            yield self.show(error_box(user_message(error)))
            return
        if too_large := [estimate for estimate in estimates if estimate.exceeds_memory]:
            warning = tag("p", _SHORT, class_="kv-warning", role="alert")
            yield self.show(join(*map(render_estimate, too_large), warning), confirm=True)
        else:
            yield from self.load_anyway(seen, *values)

    def load_anyway(self, seen: SettingsChange, *values: Any) -> Iterator[Update]:
        yield self.show()
        yield from self._apply(seen, self.inputs.read(values, seen))

    def show(self, estimates: str = "", confirm: bool = False) -> Update:
        """Show memory estimates, with the buttons of a confirmation or the usual ones; nothing is loaded."""
        return {
            self.estimates: estimates,
            self.check_button: gr.Button(visible=not confirm),
            self.load_button: gr.Button(visible=not confirm),
            self.load_anyway_button: gr.Button(visible=confirm),
            self.cancel_button: gr.Button(visible=confirm),
        }

    def _estimate(self, values: dict[str, Any], include_unchanged: bool = False) -> list[MemoryEstimate]:
        """Return the estimates of the models that would change, or also of an unchanged main model; one per name."""
        current = self._models.current()
        chosen = replace(current, **values)
        roles: dict[str, str] = {}
        is_same = (chosen.model, chosen.device, chosen.dtype) == (current.model, current.device, current.dtype)
        if include_unchanged or not is_same:
            roles[chosen.model] = "primary"
        if chosen.auxiliary_model != current.auxiliary_model:
            roles.setdefault(chosen.auxiliary_model, "auxiliary")
        return [self._models.estimate_memory(name, role, chosen) for name, role in roles.items()]
