"""The Models section: loaded models, memory estimates, and loading others, with a confirmation if memory is short."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gradio as gr

from backend.interface.errors import user_message
from backend.interface.models import MemoryEstimate, ModelService
from ui.events import QUIET, Update
from ui.html import error_box, join, tag
from ui.pages.settings.apply import SettingsReload
from ui.pages.settings.model_info import render_estimate, render_models
from ui.pages.settings.section import SettingInputs, apply_note, section

LOADING: dict[str, Any] = {"concurrency_id": "settings", "concurrency_limit": 4}
_DESCRIPTION = (
    "A folder in Hugging Face format, or a name on the Hugging Face hub, which is downloaded when you load it. Llama, "
    "Qwen2, Qwen3 and Mistral architectures are supported. The cache of each model stays on disk and is reused when "
    "you load the model again."
)
_SHORT = "There may not be enough memory: the system may slow down or end KVScope. Load it anyway?"


class ModelsSection:
    """The section.

    loaded     the loaded models
    estimates  memory estimates of the chosen models, or an error
    inputs     the settings
    check_button, load_button, load_anyway_button, cancel_button
    """

    def __init__(self, models: ModelService, reload: SettingsReload) -> None:
        self._models = models
        self._reload = reload
        self.inputs = SettingInputs(models.current(), models.overrides())

    def build(self) -> None:
        """Create the section inside the open Blocks."""
        add = self.inputs.add
        names = self._models.suggestions()
        custom: dict[str, Any] = {"allow_custom_value": True, "filterable": True}
        with section("Models", _DESCRIPTION):
            self.loaded = gr.HTML(render_models(self._models.loaded()), elem_id="models-loaded", js_on_load=None)
            with gr.Row(elem_classes="kv-fields"):
                add(gr.Dropdown, "model", "Writes the answer.", names, label="Main model", **custom)
                info = "Small model on the CPU that selects tokens. With the same name, both share their weights."
                add(gr.Dropdown, "auxiliary_model", info, names, label="Auxiliary model", **custom)
            with gr.Row(elem_classes="kv-fields"):
                dtypes = [("Automatic", "auto"), ("16-bit (bf16)", "bf16"), ("32-bit (fp32)", "fp32")]
                add(gr.Dropdown, "dtype", "16-bit numbers take half the memory.", dtypes, label="Compute precision")
                devices = [("Automatic", "auto"), *((name, name) for name in self._models.devices()[1:])]
                add(gr.Dropdown, "device", "Where the main model runs.", devices, label="Device")
            with gr.Accordion("Adapters and reranker", open=False, elem_classes="kv-more"):
                info = "Fine-tuned adapter of the main model: auto (the bundled one), off, or a folder."
                add(gr.Textbox, "lora_adapter", info, label="LoRA adapter", lines=1)
                info = "Trained head that finds answer spans: auto (the bundled one), off, or a folder."
                add(gr.Textbox, "span_scorer", info, label="Span scorer", lines=1)
                info = (
                    "Trained head that selects tokens in 'CacheClip trained': auto (the bundled one), off, or a folder."
                )
                add(gr.Textbox, "token_selector", info, label="Token selector", lines=1)
                info = "Cross-encoder that reorders the retrieved passages: off, a folder, or a name on the hub."
                add(gr.Textbox, "reranker", info, label="Reranker", lines=1)
            self.estimates = gr.HTML(elem_id="models-estimate", js_on_load=None)
            with gr.Row(elem_classes="kv-actions"):
                self.check_button = gr.Button("Check memory", elem_id="models-check", min_width=100, scale=0)
                self.load_button = gr.Button("Load", variant="primary", elem_id="models-load", min_width=100, scale=0)
                self.load_anyway_button = gr.Button(
                    "Load anyway", variant="stop", visible=False, elem_id="models-anyway", scale=0
                )
                self.cancel_button = gr.Button("Cancel", visible=False, elem_id="models-cancel", scale=0)
                apply_note()

    def wire(self, outputs: list[Any]) -> None:
        """Connect the buttons; a reload may update any of `outputs`."""
        inputs = self.inputs.components()
        section = [self.estimates, self.check_button, self.load_button, self.load_anyway_button, self.cancel_button]
        self.check_button.click(self.check, inputs, section, **LOADING, **QUIET)
        self.load_button.click(self.load, inputs, [*outputs, *section], **LOADING, **QUIET)
        self.load_anyway_button.click(self.load_anyway, inputs, [*outputs, *section], **LOADING, **QUIET)
        self.cancel_button.click(self.cancel, None, section, queue=False, **QUIET)

    def check(self, *values: Any) -> Iterator[Update]:
        """Show the memory estimates of the chosen models."""
        checking = tag("p", "Checking…", class_="kv-change", role="status")
        yield {self.estimates: checking, **self._show_confirmation(False)}
        try:
            estimates = self._estimate(self.inputs.read(values), include_unchanged=True)
            yield {self.estimates: join(*map(render_estimate, estimates))}
        except Exception as error:  # noqa: BLE001  the UI's boundary
            yield {self.estimates: error_box(user_message(error))}

    def load(self, *values: Any) -> Iterator[Update]:
        """Load the chosen models; ask for confirmation first if memory is short."""
        settings = self.inputs.read(values)
        try:
            too_large = [estimate for estimate in self._estimate(settings) if estimate.exceeds_memory]
        except Exception as error:  # noqa: BLE001  the UI's boundary
            yield {self.estimates: error_box(user_message(error)), **self._show_confirmation(False)}
            return
        if too_large:
            warning = tag("p", _SHORT, class_="kv-warning", role="alert")
            yield {self.estimates: join(*map(render_estimate, too_large), warning), **self._show_confirmation(True)}
            return
        yield from self.load_anyway(*values)

    def load_anyway(self, *values: Any) -> Iterator[Update]:
        """Load the chosen models even if memory is short."""
        yield self.cancel()
        yield from self._reload.apply(self.inputs.read(values))

    def cancel(self) -> Update:
        """Hide the estimates and the confirmation; the loaded models stay."""
        return {self.estimates: "", **self._show_confirmation(False)}

    def _estimate(self, values: dict[str, Any], include_unchanged: bool = False) -> list[MemoryEstimate]:
        """Return the estimates of the models that would change, or also of an unchanged main model; one per name."""
        current = self._models.current()
        chosen = replace(current, **values)
        runs_elsewhere = (chosen.device, chosen.dtype) != (current.device, current.dtype)
        estimates: dict[str, MemoryEstimate] = {}
        if include_unchanged or runs_elsewhere or chosen.model != current.model:
            estimates[chosen.model] = self._models.estimate_memory(chosen.model, "primary", chosen)
        auxiliary = chosen.auxiliary_model
        if auxiliary != current.auxiliary_model and auxiliary not in estimates:
            estimates[auxiliary] = self._models.estimate_memory(auxiliary, "auxiliary", chosen)
        return list(estimates.values())

    def _show_confirmation(self, visible: bool) -> Update:
        return {
            self.check_button: gr.Button(visible=not visible),
            self.load_button: gr.Button(visible=not visible),
            self.load_anyway_button: gr.Button(visible=visible),
            self.cancel_button: gr.Button(visible=visible),
        }
