"""The Cache section: budget of each tier, precision on disk, eviction policy."""

from collections.abc import Iterator, Sequence
from typing import Any

import gradio as gr

from backend.interface.backend import Backend, TierUsage
from ui.components.tiers import POLICIES, TIERS
from ui.events import QUIET, Update
from ui.format import GIB, percent
from ui.html import Markup, tag
from ui.pages.settings.apply import SettingsReload
from ui.pages.settings.model_info import usage_bar
from ui.pages.settings.models_section import LOADING
from ui.pages.settings.section import SettingInputs, apply_note, section

_DESCRIPTION = (
    "The keys and values (KV) computed for your passages are kept for later questions: in memory for speed, on disk "
    "across restarts. When a budget is used up, the least valuable passages are evicted."
)
_PRECISIONS = [("16-bit: exact", 16), ("8-bit: half the size, not exact", 8)]
_POLICY = "Decides which passages are evicted first. See the Cache page for the formulas."


class CacheSection:
    """The section.

    usage   current use of each tier
    inputs  the settings
    """

    def __init__(self, backend: Backend, reload: SettingsReload) -> None:
        self._backend = backend
        self._reload = reload
        self._has_gpu = len(backend.models.devices()) > 2
        self.inputs = SettingInputs(backend.models.current(), backend.models.overrides())

    def build(self) -> None:
        """Create the section inside the open Blocks."""
        add = self.inputs.add
        with section("Cache", _DESCRIPTION):
            self.usage = gr.HTML(render_usage(self._backend.tier_usage()), elem_id="memory-usage", js_on_load=None)
            with gr.Row(elem_classes="kv-fields"):
                if self._has_gpu:
                    self._add_budget("gpu_cache_gib", "GPU memory, GiB", "For models that run on the GPU.")
                self._add_budget("cpu_cache_gib", "Memory, GiB", "Fast; emptied by a restart.")
                self._add_budget("disk_cache_gib", "Disk, GiB", "Slower; survives a restart.")
            with gr.Row(elem_classes="kv-fields"):
                info = "Changing it removes what is on disk in the other precision."
                add(gr.Dropdown, "disk_kv_bits", info, _PRECISIONS, label="KV precision on disk", filterable=False)
                policies = [(policy.choice, name) for name, policy in POLICIES.items()]
                add(gr.Dropdown, "eviction_policy", _POLICY, policies, label="Eviction policy", filterable=False)
            with gr.Row(elem_classes="kv-actions"):
                self._apply = gr.Button("Apply", elem_id="memory-apply", min_width=100, scale=0)
                apply_note("Budgets take effect immediately. Other changes stop running questions and uploads.")

    def _add_budget(self, name: str, label: str, info: str) -> None:
        # A number input, because no maximum of a slider suits every machine.
        self.inputs.add(gr.Number, name, info, minimum=0, step=0.25, label=label)

    def wire(self, outputs: list[Any]) -> None:
        """Connect the button; a reload may update any of `outputs`."""
        self._apply.click(self.apply, self.inputs.components(), outputs, **LOADING, **QUIET)

    def updates(self) -> Update:
        """Return the current use of the tiers."""
        return {self.usage: render_usage(self._backend.tier_usage())}

    def apply(self, *values: Any) -> Iterator[Update]:
        """Apply the settings of this section."""
        yield from self._reload.apply(self.inputs.read(values))


def render_usage(tiers: Sequence[TierUsage]) -> Markup:
    """Return a bar for each tier; empty without tiers."""
    rows = []
    for tier in tiers:
        ratio = min(1.0, tier.size_bytes / tier.budget_bytes) if tier.budget_bytes else 0.0
        usage = f"{tier.size_bytes / GIB:.2f} of {tier.budget_bytes / GIB:.2f}\u00a0GiB"
        cells = (tag("span", TIERS[tier.tier].name), usage_bar(ratio), tag("span", usage, class_="kv-number"))
        rows.append(tag("li", *cells, title=f"{percent(ratio)} of this budget is used"))
    return tag("ul", *rows, class_="kv-parts", aria_label="Cache usage") if rows else Markup("")
