"""The Settings page: models, chunking, cache, system prompt, appearance and system information."""

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from backend.interface.models import SettingsChange
from ui.components.tiers import POLICIES
from ui.components.uploads import CONNECT_PROGRESS, render_progress
from ui.events import INGEST_QUEUE, INSTANT, QUIET, SessionTasks, Update, coalesce, session_of
from ui.figures.fidelity import fidelity_figure
from ui.html import error_box, tag
from ui.pages.settings.model_info import (
    render_fidelity,
    render_language_buttons,
    render_prompt,
    render_reload,
    render_stale_documents,
    render_system_info,
    render_theme_buttons,
    render_usage,
)
from ui.pages.settings.models_section import ModelsSection
from ui.pages.settings.section import APPLY_NOTE, RELOAD_QUEUE, SettingInputs, section

_DONE = "Done. These settings are in use and saved for the next start."
_POLL_S = 0.15
_CHUNKING = (
    "Documents are split into passages (chunks) that end at sentence ends. Long passages keep more context together, "
    "short ones can be retrieved more precisely. CacheClip's paper uses 1000 tokens with an overlap of 50."
)
_SIZE_INFO = "Maximum tokens per passage (chunk size). A token is about three quarters of an English word."
_OVERLAP_INFO = "Maximum tokens shared by adjacent passages; only whole sentences are repeated."
_MAX_OVERLAP = 1024
_CACHE = (
    "The keys and values (KV) computed for your passages are kept for later questions: in memory for speed, on disk "
    "across restarts. When a budget is used up, the least valuable passages are evicted."
)
_CACHE_NOTE = "Budgets take effect immediately. Other changes stop running questions and uploads."
_BITS = [("16-bit: exact", 16), ("8-bit: half the size, not exact", 8)]
_BITS_INFO = "Changing it deletes the KV that is on disk in the other precision."
_POLICY_INFO = "Decides which passages are evicted first. See Library, Cache details, for the formulas."
_FIDELITY = (
    "How close answers with reused keys and values stay to those of full prefill, on the loaded model: KL divergence "
    "of the predicted tokens, measured once with built-in questions while KVScope is idle. CacheClip adaptive uses it."
)
_ABOUT = "KVScope sends no data to other machines; it only downloads models and web pages you ask for."
_ABOUT_SERVED = "KVScope sends no other data to other machines; it only downloads models and web pages you ask for."
_PROMPT = "The instructions before the passages in every prompt (the shared prefix), computed once for all questions."


class Settings:
    """The page. Settings are global; only what a session has entered and not applied yet is per session.

    Applying settings reloads what they change, for all sessions, and continues when the tab is closed.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._models = backend.models
        self.tasks = SessionTasks()  # running re-indexing

    def build(self, tab: gr.Tab) -> None:
        with gr.Column(elem_id="settings-page", elem_classes="kv-page", min_width=0):
            with gr.Row(elem_id="reload", equal_height=False):
                self.status = gr.HTML(elem_id="reload-status", js_on_load=None)
                self._cancel = gr.Button("Cancel download", size="sm", visible=False, elem_id="reload-cancel")
            self.models = ModelsSection(self._models, self.follow)
            self.chunking = ChunkingSection(self._backend, self.tasks)
            with section("Cache", _CACHE):
                self._usage = gr.HTML(render_usage(self._backend.tier_usage()), elem_id="memory-usage", js_on_load=None)
                self.cache = self._cache_inputs()
                with gr.Row(elem_classes="kv-actions"):
                    apply_cache = gr.Button("Apply", elem_id="memory-apply", min_width=100, scale=0)
                    gr.HTML(tag("p", _CACHE_NOTE), js_on_load=None)
            with section("Fidelity", _FIDELITY):
                self._fidelity = gr.HTML(elem_id="fidelity", js_on_load=None)
                self._fidelity_plot = gr.Plot(
                    visible=False, show_label=False, container=False, buttons=[], elem_id="fidelity-plot"
                )
            with section("System prompt", _PROMPT):
                gr.HTML(render_prompt(self._models.system_prompt()), elem_id="prompt", js_on_load=None)
            with section("Appearance", "Saved in this browser only."):
                gr.HTML(render_theme_buttons(), elem_id="themes", js_on_load="kvTheme.connect(element);")
                gr.HTML(render_language_buttons(), elem_id="languages", js_on_load="kvLanguage.connect(element);")
            server = self._backend.outgoing_note
            with section("About", f"{server} {_ABOUT_SERVED}" if server else _ABOUT):
                self._about = gr.HTML(elem_id="about", js_on_load=None)
            self.seen = gr.State(self._models.current())  # the settings that this session saw last
        self._inputs = (self.models.inputs, self.chunking.inputs, self.cache)
        outputs: list[Any] = [self.status, self._cancel, self._usage, self._about, self.seen]
        outputs += [self._fidelity, self._fidelity_plot]
        outputs += [self.models.loaded, self.models.presets, self.chunking.stale, self.chunking.reindex_button]
        outputs += [component for inputs in self._inputs for component in inputs.components.values()]
        self.models.connect(self.seen, outputs)
        self._apply_on_click(self.chunking.apply_button, self.chunking.inputs, outputs)
        self._apply_on_click(apply_cache, self.cache, outputs)
        self._cancel.click(self._models.cancel_download, None, None, **INSTANT)
        tab.select(self.refresh, self.seen, outputs, **RELOAD_QUEUE)

    def refresh(self, seen: SettingsChange | None) -> Iterator[Update]:
        """Show the current state; unapplied input is kept unless the settings have changed since `seen`."""
        try:
            current = self._models.current()
            yield self._updates(seen)
            if self._models.reload_status().running:
                yield from self.follow(current)
        except Exception as error:  # noqa: BLE001  the UI's boundary
            yield {self.status: error_box(user_message(error))}

    def follow(self, seen: SettingsChange, changes: Mapping[str, Any] | None = None) -> Iterator[Update]:
        """Show the latest reload until it ends; with `changes`, fields of `SettingsChange`, start it first.

        Input that was neither applied nor changed since `seen` is kept.
        """
        try:
            if changes is not None:
                self._models.apply(replace(self._models.current(), **changes))
            while (reload := self._models.reload_status()).running:
                yield {self.status: render_reload(reload), self._cancel: gr.Button(visible=reload.can_stop)}
                time.sleep(_POLL_S)
            status = render_reload(reload, "" if changes is None else _DONE)
            yield {**self._updates(seen, changes or ()), self.status: status, self._cancel: gr.Button(visible=False)}
        except Exception as error:  # noqa: BLE001  the UI's boundary
            yield {self.status: error_box(user_message(error)), self._cancel: gr.Button(visible=False)}

    def _apply_on_click(self, button: gr.Button, inputs: SettingInputs, outputs: list[Any]) -> None:
        def apply(seen: SettingsChange, *values: Any) -> Iterator[Update]:
            yield from self.follow(seen, inputs.read(values, seen))

        button.click(apply, [self.seen, *inputs.components.values()], outputs, **RELOAD_QUEUE)

    def _cache_inputs(self) -> SettingInputs:
        """Create the inputs of the Cache section: budget of each tier, precision on disk, eviction policy."""
        inputs = SettingInputs(self._models)
        add = inputs.add
        number: dict[str, Any] = {"minimum": 0, "step": 0.25}  # no slider, because no maximum suits every machine
        policies = [(policy.choice, name) for name, policy in POLICIES.items()]
        with gr.Row(elem_classes="kv-fields"):
            if len(self._models.devices()) > 2:  # more than "auto" and "cpu"
                add(gr.Number, "gpu_cache_gib", "For models that run on the GPU.", label="GPU memory, GiB", **number)
            add(gr.Number, "cpu_cache_gib", "Fast; emptied by a restart.", label="Memory, GiB", **number)
            add(gr.Number, "disk_cache_gib", "Slower; survives a restart.", label="Disk, GiB", **number)
        with gr.Row(elem_classes="kv-fields"):
            add(gr.Dropdown, "disk_kv_bits", _BITS_INFO, _BITS, label="KV precision on disk", filterable=False)
            add(gr.Dropdown, "eviction_policy", _POLICY_INFO, policies, label="Eviction policy", filterable=False)
        return inputs

    def _updates(self, seen: SettingsChange | None, applied: Collection[str] = ()) -> Update:
        """Return everything that a reload may have changed: of the inputs, those `applied` or changed since `seen`."""
        current, fidelity = self._models.current(), self._models.fidelity()
        curve = fidelity.curve
        update: Update = {
            **self.models.updates(),
            **self.chunking.updates(),
            self._usage: render_usage(self._backend.tier_usage()),
            self._fidelity: render_fidelity(fidelity),
            self._fidelity_plot: gr.Plot(curve and fidelity_figure(curve), visible=curve is not None),
            self._about: render_system_info(self._models.system_info()),
            self.seen: current,
        }
        for inputs in self._inputs:
            update |= inputs.show(current, seen, applied)
        return update


class ChunkingSection:
    """The section; `stale` shows which documents were chunked with other settings."""

    def __init__(self, backend: Backend, tasks: SessionTasks) -> None:
        """Create and connect the section inside the open Blocks, except for the button that applies the settings."""
        self._backend = backend
        self._models = backend.models
        self._tasks = tasks
        self.inputs = SettingInputs(backend.models)
        max_overlap = max(_MAX_OVERLAP, backend.models.current().chunk_overlap)
        add = self.inputs.add
        with section("Passages", _CHUNKING):
            with gr.Row(elem_classes="kv-fields"):
                add(gr.Slider, "chunk_size", _SIZE_INFO, 16, 4096, step=1, label="Passage length", buttons=[])
                add(gr.Slider, "chunk_overlap", _OVERLAP_INFO, 0, max_overlap, step=1, label="Overlap", buttons=[])
            self.stale = gr.HTML(elem_id="passages-stale", js_on_load=None)
            self.progress = gr.HTML(elem_id="passages-progress", js_on_load=CONNECT_PROGRESS)
            with gr.Row(elem_classes="kv-actions"):
                self.apply_button = gr.Button("Apply", elem_id="passages-apply", min_width=100, scale=0)
                self.reindex_button = gr.Button(
                    "Re-index documents", visible=False, elem_id="passages-reindex", min_width=140, scale=0
                )
                self._stop = gr.Button("Stop", variant="stop", visible=False, elem_id="passages-stop", scale=0)
                gr.HTML(tag("p", APPLY_NOTE), js_on_load=None)
        shown = [self.stale, self.progress, self.reindex_button, self._stop, self.apply_button]
        self.reindex_button.click(self.reindex, None, shown, **INGEST_QUEUE, **QUIET)
        self._stop.click(self._tasks.stop, None, None, **INSTANT)

    def updates(self) -> Update:
        """Return the documents that were chunked with other settings, and the button that re-indexes them."""
        settings = self._models.current()
        stale = self._models.stale_documents()
        return {
            self.stale: render_stale_documents(stale, settings.chunk_size, settings.chunk_overlap),
            self.reindex_button: gr.Button(visible=bool(stale)),
        }

    def reindex(self, request: gr.Request) -> Iterator[Update]:
        """Re-index all documents that were chunked with other settings, showing the progress."""
        session = session_of(request)
        if (cancel := self._tasks.start(session)) is None:  # this session is re-indexing already
            yield gr.skip()
            return
        idle: Update = {self._stop: gr.Button(visible=False), self.apply_button: gr.Button(interactive=True)}
        try:
            yield {
                self.reindex_button: gr.Button(visible=False),
                self._stop: gr.Button(visible=True),
                self.apply_button: gr.Button(interactive=False),
                self.progress: "",
            }
            document_ids = [each for stale in self._models.stale_documents() for each in stale.document_ids]
            states = self._backend.library.reindex(document_ids, cancel)
            for files in coalesce(states, lambda files: tuple(file.stage for file in files)):
                yield {self.progress: render_progress(files)}
            yield {**self.updates(), **idle}
        except Exception as error:  # noqa: BLE001  the UI's boundary
            yield {**self.updates(), **idle, self.progress: error_box(user_message(error))}
        finally:
            self._tasks.finish(session, cancel)
