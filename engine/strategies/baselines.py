"""Reference methods: full prefill, reuse without recomputation, exact prefix reuse, random and oracle windows."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.method import number_param
from engine.strategies.base import Strategy, WindowStrategy
from engine.types import NO_ROWS, Placement, RecomputePlan, SelectionContext


@dataclass(frozen=True)
class Full(Strategy):
    """Full prefill without reuse: the upper bound of both quality and time."""

    label: ClassVar[str] = "Full prefill"
    description: ClassVar[str] = "Reuses nothing: every token is computed. Best answer, slowest first token."
    reuses_kv: ClassVar[bool] = False

    def plan(self, context: SelectionContext) -> RecomputePlan:
        return RecomputePlan(torch.arange(context.spans[-1].stop if context.spans else 0))


@dataclass(frozen=True)
class Direct(Strategy):
    """Direct reuse with the shared prefix and re-rotated keys, nothing recomputed: the lower bound of time."""

    label: ClassVar[str] = "Direct reuse"
    description: ClassVar[str] = "Recomputes nothing: cached passages are concatenated at their new positions."

    def plan(self, context: SelectionContext) -> RecomputePlan:
        return RecomputePlan(NO_ROWS)


@dataclass(frozen=True)
class Naive(Direct):
    """Direct reuse without the shared prefix and without re-rotation.

    Each chunk brings its own attention sink, and all chunks share the same positions. CacheBlend (arXiv:2405.16444)
    and EPIC (arXiv:2410.15332) compare with it as "full KV reuse" without position recovery.
    """

    label: ClassVar[str] = "Naive reuse"
    description: ClassVar[str] = "Recomputes nothing and keeps positions: every passage starts at position 0."
    placement: ClassVar[Placement] = Placement.NO_PREFIX


@dataclass(frozen=True)
class Prefix(Strategy):
    """Exact prefix reuse as in vLLM's prefix caching and RAGCache (arXiv:2404.12457); equal to full prefill.

    Every token after the first difference is recomputed.
    """

    label: ClassVar[str] = "Exact prefix"
    description: ClassVar[str] = "Reuses only exact KV: passages read before, in this order. Computes the rest."
    paper: ClassVar[str] = "2404.12457"
    placement: ClassVar[Placement] = Placement.EXACT_PREFIX

    def plan(self, context: SelectionContext) -> RecomputePlan:
        return RecomputePlan(context.slots[context.num_exact_tokens :])


@dataclass(frozen=True)
class RandomWindows(WindowStrategy):
    """Random windows: the control for every selection at the same budget.

    ratio  nominal recompute ratio, 0 to 1
    seed   combined with the prompt's own seed, so that each prompt gets its own draw
    """

    label: ClassVar[str] = "Random windows"
    description: ClassVar[str] = "Recomputes randomly drawn windows: the control."

    seed: int = number_param(0, "Seed", "Another seed draws other windows.", 0, 9999, 1)

    def scores(self, context: SelectionContext) -> Tensor:
        generator = torch.Generator().manual_seed((context.seed << 14) + self.seed)
        return torch.rand(context.context_tokens, generator=generator)


@dataclass(frozen=True)
class OracleWindows(WindowStrategy):
    """Windows by the attention of a full prefill's last layer: the reference for selection by attention.

    It costs a full prefill, so it saves no time.
    """

    label: ClassVar[str] = "Oracle windows"
    description: ClassVar[str] = "Recomputes what a full prefill attends to: a reference, slower than full prefill."

    def scores(self, context: SelectionContext) -> Tensor:
        return context.oracle_attention()
