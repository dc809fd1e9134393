"""Prefill one prompt as a strategy plans it: load, assemble, select, recompute."""

from dataclasses import dataclass
from threading import Event

from torch import Tensor

from engine.cache.node import Node
from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer
from engine.prefill.context import PromptContext
from engine.prefill.plan import plan_recompute
from engine.prefill.recompute import recompute
from engine.strategies.base import Strategy
from engine.trace import Trace


@dataclass(frozen=True)
class PrefillResult:
    """A prompt with complete KV.

    buffer            KV of the whole prompt, with capacity for the answer
    logits            [V] of the first token
    rows              [R] slots before the question that got fresh KV
    actual_ratio      recomputed / reusable tokens
    flops             floating-point operations of the main model's pass
    tiers             the source of each chunk's KV: a tier's name, 'computed', or 'none' without reuse
    num_path_chunks   leading chunks whose KV came from one exact path
    num_exact_chunks  leading chunks whose KV in the buffer is exact
    touched_nodes     tree nodes that were read
    """

    buffer: KVBuffer
    logits: Tensor
    rows: Tensor
    actual_ratio: float
    flops: float
    tiers: tuple[str, ...]
    num_path_chunks: int
    num_exact_chunks: int
    touched_nodes: tuple[Node, ...] = ()


def prefill(
    decoder: Decoder, context: PromptContext, strategy: Strategy, trace: Trace, cancel: Event | None = None
) -> PrefillResult:
    """Load or compute the KV of a prompt, up to the first token's logits. Raises Cancelled once `cancel` is set."""
    tiers: tuple[str, ...] = ("none",) * len(context.spans)
    num_path_chunks = 0
    if strategy.reuses_kv:
        with trace.stage("load"):
            chunk_set = context.load(strategy.placement, strategy.score_mode)
            tiers, num_path_chunks = chunk_set.tiers, chunk_set.num_path_chunks
        with trace.stage("assemble"):
            buffer = context.assemble(strategy.placement)
    else:
        buffer = context.new_buffer()
    with trace.stage("select"):
        plan = plan_recompute(strategy, context.selection_context(strategy.placement))
    with trace.stage("recompute" if strategy.reuses_kv else "prefill"):
        result = recompute(decoder, context, buffer, plan, cancel)
    return PrefillResult(
        buffer,
        result.logits,
        result.rows,
        result.actual_ratio,
        result.flops,
        tiers,
        num_path_chunks,
        plan.num_exact_chunks,
        tuple(context.touched_nodes),
    )
