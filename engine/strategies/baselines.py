"""Reference methods: full prefill, reuse without recomputation, exact prefix reuse, random and oracle windows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.method import param_field
from engine.strategies.base import Strategy, WindowStrategy
from engine.types import NO_ROWS, Placement, RecomputePlan, SelectionContext


@dataclass(frozen=True)
class Full(Strategy):
    label = "Full prefill"
    description = "Reuses nothing: every token is computed. Best answer, slowest first token."
    reuses_kv = False

    def plan(self, context: SelectionContext) -> RecomputePlan:
        return RecomputePlan(torch.arange(context.spans[-1].stop if context.spans else 0))


@dataclass(frozen=True)
class Direct(Strategy):
    """Direct reuse with the shared prefix and re-rotated keys, nothing recomputed: the lower bound of time."""

    label = "Direct reuse"
    description = "Recomputes nothing: cached passages are concatenated at their new positions."
    recomputes = False

    def plan(self, context: SelectionContext) -> RecomputePlan:
        return RecomputePlan(NO_ROWS)


@dataclass(frozen=True)
class Naive(Direct):
    """Direct reuse without prefix and re-rotation: each chunk has its own attention sink, and all share positions.

    CacheBlend (arXiv:2405.16444) and EPIC (arXiv:2410.15332) compare with it as "full KV reuse".
    """

    label = "Naive reuse"
    description = "Recomputes nothing and keeps positions: every passage starts at position 0."
    placement = Placement.NO_PREFIX


@dataclass(frozen=True)
class Prefix(Strategy):
    """Exact prefix reuse as in vLLM's prefix caching and RAGCache (arXiv:2404.12457); equal to full prefill."""

    label = "Exact prefix"
    description = "Reuses only exact KV: passages read before, in this order. Computes the rest."
    paper = "2404.12457"
    placement = Placement.EXACT_PREFIX

    def plan(self, context: SelectionContext) -> RecomputePlan:
        return RecomputePlan(context.slots[context.num_exact_tokens :])


@dataclass(frozen=True)
class RandomWindows(WindowStrategy):
    label = "Random windows"
    description = "Recomputes randomly drawn windows: the control."

    seed: int = param_field(0, "Seed", "Another seed draws other windows.", low=0, high=9999, step=1)

    def scores(self, context: SelectionContext) -> Tensor:
        # combined with the prompt's own seed, so that each prompt gets its own draw
        generator = torch.Generator().manual_seed((context.seed << 14) + self.seed)
        return torch.rand(context.context_tokens, generator=generator)


@dataclass(frozen=True)
class OracleWindows(WindowStrategy):
    label = "Oracle windows"
    description = "Recomputes what a full prefill attends to: a reference, slower than full prefill."

    def scores(self, context: SelectionContext) -> Tensor:
        return context.oracle_attention()
