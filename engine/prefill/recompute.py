"""Carry out a plan: fresh KV for its rows and for the question, in one pass, up to the first token's logits."""

from dataclasses import dataclass, replace
from threading import Event

import torch
from torch import Tensor

from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer, Parallel
from engine.prefill.context import PromptContext
from engine.prefill.row_filter import prefill_filtered
from engine.strategies.base import Strategy
from engine.types import Placement, RecomputePlan, SelectionContext


@dataclass(frozen=True, slots=True)
class RecomputeResult:
    """What a pass has computed.

    logits      [V] of the first token
    rows        [R] context slots that got fresh KV; where rows were dropped on the way, those that were chosen first
    ratio       of the context's tokens; where rows were dropped, the mean over the layers from the choice on: what
                comes before is the price of choosing
    operations  floating-point, of every row in every layer: the question's and that price as well
    """

    logits: Tensor
    rows: Tensor
    ratio: float
    operations: float


def without_path(plan: RecomputePlan, view: SelectionContext) -> RecomputePlan:
    """Leave out the rows of an exact path of several chunks, unless the plan covers everything.

    Methods know that the first chunk is exact; whatever else the knowledge tree found needs no recomputing either.
    """
    everything = plan.row_filter is None and len(plan.rows) >= view.context_tokens
    if view.num_exact_chunks < 2 or everything:
        return plan
    return replace(plan, rows=plan.rows[plan.rows >= view.spans[view.num_exact_chunks - 1].stop])


def exact_chunks(plan: RecomputePlan, view: SelectionContext, strategy: Strategy) -> int:
    """Return how many leading chunks have exact KV once the plan is carried out: found exact, or computed whole."""
    moved = strategy.placement not in (Placement.CONCATENATED, Placement.EXACT_PREFIX)
    if strategy.reuses and (moved or plan.row_filter is not None or plan.parallel_attention):
        return 0
    fresh = set(plan.rows.tolist())
    exact = view.num_exact_chunks if strategy.reuses else 0
    while exact < len(view.spans) and fresh.issuperset(view.spans[exact]):
        exact += 1
    return exact


def recompute(
    decoder: Decoder, evidence: PromptContext, buffer: KVBuffer, plan: RecomputePlan, cancel: Event | None = None
) -> RecomputeResult:
    """Compute what the plan and the question need, into the buffer.

    A plan that covers the whole context takes the full prefill's own pass, so that it is equal bit for bit.
    """
    spec = decoder.spec
    ids, asked, lengths = evidence.ids, evidence.query_rows, [len(span) for span in evidence.spans]
    context = sum(lengths)
    if plan.parallel_attention is not None and lengths:
        buffer.parallel = Parallel(
            slice(evidence.spans[0].start, evidence.spans[-1].stop), max(lengths), plan.parallel_attention
        )
    if plan.row_filter is not None:
        rows = torch.cat((plan.rows, asked))
        left = prefill_filtered(decoder, ids[rows], buffer, rows, len(asked), plan.row_filter, cancel)
        counted = left.rows[left.chosen :]
        ratio = sum(map(len, counted)) / (len(counted) * context) if context else 0.0
        layers = [spec.operations_of(torch.cat((kept, asked))) / spec.layers for kept in left.rows]
        return RecomputeResult(left.logits, counted[0], ratio, sum(layers))
    rows = torch.arange(len(ids)) if len(plan.rows) >= context else torch.cat((plan.rows, asked))
    ratio = min(1.0, len(plan.rows) / context) if context else 0.0
    return RecomputeResult(decoder.prefill(ids[rows], buffer, rows, cancel), plan.rows, ratio, spec.operations_of(rows))
