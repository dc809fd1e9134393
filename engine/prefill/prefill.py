"""From evidence and a strategy to a prompt whose KV is complete: load, assemble, select, recompute."""

from dataclasses import dataclass
from threading import Event

from torch import Tensor

from engine.cache.node import Node
from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer
from engine.prefill.context import PromptContext
from engine.prefill.recompute import exact_chunks, recompute, without_path
from engine.strategies import Strategy
from engine.trace import Trace


@dataclass(frozen=True)
class PrefillResult:
    """A prompt whose KV is complete.

    logits          [V] of its next token
    rows            [R] slots before the question that got fresh KV in any layer counted
    realised_ratio  recomputed / reusable tokens
    operations      floating-point operations of what the primary has computed for it
    tiers           where each chunk's KV came from; 'none' where nothing was reused
    path            leading chunks whose KV was found as one exact path
    exact           leading chunks whose KV in the buffer is exact now
    uses            nodes of the tree that were read for it
    """

    buffer: KVBuffer
    logits: Tensor
    rows: Tensor
    actual_ratio: float
    operations: float
    tiers: tuple[str, ...]
    num_path_chunks: int
    num_exact_chunks: int
    touched_nodes: tuple[Node, ...] = ()


def prefill(
    decoder: Decoder, evidence: PromptContext, strategy: Strategy, trace: Trace, cancel: Event | None = None
) -> PrefillResult:
    """Bring one prompt's KV together as the strategy plans it, up to the logits of the first token.

    Raises Cancelled once `cancel` is set.
    """
    tiers, path = ("none",) * len(evidence.spans), 0
    if strategy.reuses:
        with trace.stage("load"):
            held = evidence.load(strategy.placement, strategy.scoring)
            tiers, path = held.tiers, held.exact
        with trace.stage("assemble"):
            buffer = evidence.assemble(strategy.placement)
    else:
        buffer = evidence.buffer()
    with trace.stage("select"):
        view = evidence.selection_context(strategy.placement)
        plan = without_path(strategy.plan(view), view)
    with trace.stage("recompute" if strategy.reuses else "prefill"):
        done = recompute(decoder, evidence, buffer, plan, cancel)
    exact = exact_chunks(plan, view, strategy)
    return PrefillResult(
        buffer, done.logits, done.rows, done.ratio, done.operations, tiers, path, exact, tuple(evidence.touched_nodes)
    )
