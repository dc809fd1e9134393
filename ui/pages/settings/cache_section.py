"""The section for memory: how much room keys and values get in each tier, in which format, and what goes first."""

from collections.abc import Iterator, Sequence
from typing import Any

import gradio as gr

from backend.interface.backend import Backend, TierUsage
from ui.events import QUIET, Update
from ui.format import percent
from ui.html import Markup, tag
from ui.pages.settings.apply import Changes
from ui.pages.settings.model_info import bar
from ui.pages.settings.models_section import LOADING
from ui.pages.settings.section import Choices, section, stops_questions

GIB = 2**30
NAMES = {"device": "GPU memory", "host": "Memory", "disk": "Disk"}
_ABOUT = (
    "What was computed of your passages (their keys and values, KV) is kept for later questions: in fast memory first, "
    "on disk across restarts. When room is short, the least worth keeping goes."
)
_POLICIES = [
    ("Dearest to compute again (PGDSF)", "pgdsf"),
    ("The same, costs unmeasured (GDSF)", "gdsf"),
    ("Last used (LRU)", "lru"),
    ("Most often used (LFU)", "lfu"),
]
_BITS = [("16 bits: exact", 16), ("8 bits: half the room, not exact", 8)]


class MemorySection:
    """Draws and connects the section."""

    def __init__(self, backend: Backend, changes: Changes) -> None:
        self._backend, self._changes = backend, changes
        self._gpu = len(backend.models.devices()) > 2
        self.choices = Choices(backend.models.wanted(), backend.models.overridden())

    def build(self) -> None:
        """Draw the section inside the open Blocks."""
        add = self.choices.add
        with section("Memory", _ABOUT):
            self.kept = gr.HTML(fill(self._backend.tier_usage()), elem_id="memory-kept", js_on_load=None)
            with gr.Row(elem_classes="kv-fields"):
                if self._gpu:
                    self._room("device_gib", "GPU memory, GiB", "Where the model runs on a GPU.")
                self._room("host_gib", "Memory, GiB", "Fast, empty after a restart.")
                self._room("disk_gib", "Disk, GiB", "Slower, and still there after a restart.")
            with gr.Row(elem_classes="kv-fields"):
                says = "A change removes what is on disk in the other format."
                add(gr.Dropdown, "kv_bits", says, _BITS, label="Format on disk", filterable=False)
                says = "Which keys and values stay when room is short; RAGCache's paper compares them."
                add(gr.Dropdown, "policy", says, _POLICIES, label="What stays", filterable=False)
            with gr.Row(elem_classes="kv-actions"):
                self._apply = gr.Button("Apply", elem_id="memory-apply", min_width=100, scale=0)
                stops_questions("Other budgets are in use at once. Anything else stops")

    def _room(self, name: str, label: str, says: str) -> None:
        self.choices.add(gr.Number, name, says, minimum=0, step=0.25, label=label)  # no machine's most is right for all

    def wire(self, outputs: list[Any]) -> None:
        """Connect the button; a change may touch any of `outputs`."""
        self._apply.click(self.apply, self.choices.components(), outputs, **LOADING, **QUIET)

    def refreshed(self) -> Update:
        """Return how full the tiers are."""
        return {self.kept: fill(self._backend.tier_usage())}

    def apply(self, *values: Any) -> Iterator[Update]:
        """Give the tiers these budgets."""
        yield from self._changes.make(self.choices.read(values))


def fill(tiers: Sequence[TierUsage]) -> Markup:
    """Return a bar for each tier that is in use; nothing before there are any."""
    rows = []
    for tier in tiers:
        share = min(1.0, tier.size_bytes / tier.budget_bytes) if tier.budget_bytes else 0.0
        said = f"{tier.size_bytes / GIB:.2f} of {tier.budget_bytes / GIB:.2f}\u00a0GiB"
        row = (tag("span", NAMES[tier.tier]), bar(share), tag("span", said, class_="kv-number"))
        rows.append(tag("li", *row, title=f"{percent(share)} of this budget is in use"))
    return tag("ul", *rows, class_="kv-parts", aria_label="Room in use") if rows else Markup("")
