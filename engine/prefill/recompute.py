"""Carry out a recompute plan: one pass over its rows and the question, up to the first token's logits."""

from dataclasses import dataclass
from threading import Event

import torch
from torch import Tensor

from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer, ParallelLayout
from engine.prefill.context import PromptContext
from engine.prefill.row_filter import prefill_filtered
from engine.types import RecomputePlan


@dataclass(frozen=True, slots=True)
class RecomputeResult:
    """The result of one recompute pass.

    logits        [V] of the first token
    rows          [R] slots that got fresh KV; with a row filter, those that passed it first
    actual_ratio  of the context tokens; with a row filter, the mean over the layers from the first filtered one on
    flops         of all rows in all layers, the question and unfiltered layers included
    """

    logits: Tensor
    rows: Tensor
    actual_ratio: float
    flops: float


def recompute(
    decoder: Decoder, context: PromptContext, buffer: KVBuffer, plan: RecomputePlan, cancel: Event | None = None
) -> RecomputeResult:
    """Compute fresh KV for the plan's rows and the question, in the buffer. Raises Cancelled once `cancel` is set.

    A plan that covers the whole context runs the same pass as full prefill, so the result is equal bit for bit.
    """
    spec, ids, query_rows = decoder.spec, context.ids, context.query_rows
    lengths = [len(span) for span in context.spans]
    num_tokens = sum(lengths)
    if plan.parallel_attention is not None and lengths:
        slots = slice(context.spans[0].start, context.spans[-1].stop)
        buffer.parallel = ParallelLayout(slots, max(lengths), plan.parallel_attention)
    if plan.row_filter is not None:
        rows = torch.cat((plan.rows, query_rows))
        result = prefill_filtered(decoder, ids[rows], buffer, rows, len(query_rows), plan.row_filter, cancel)
        filtered = result.rows[result.first_filtered_layer :]
        ratio = sum(map(len, filtered)) / (len(filtered) * num_tokens) if num_tokens else 0.0
        flops = sum(spec.flops_at(torch.cat((kept, query_rows))) / spec.num_layers for kept in result.rows)
        return RecomputeResult(result.logits, filtered[0], ratio, flops)
    covers_context = len(plan.rows) >= num_tokens
    rows = torch.arange(len(ids)) if covers_context else torch.cat((plan.rows, query_rows))
    ratio = min(1.0, len(plan.rows) / num_tokens) if num_tokens else 0.0
    logits = decoder.forward_rows(ids[rows], buffer, rows, cancel)
    return RecomputeResult(logits, plan.rows, ratio, spec.flops_at(rows))
