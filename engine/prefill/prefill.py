"""Prefill one prompt as a strategy plans it: load, assemble, select, recompute."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import Any

import torch
from torch import Tensor

from engine.cache.tier import Node
from engine.model.attention import ParallelLayout
from engine.model.decoder import Decoder
from engine.model.kernels.fused_layer import Memory
from engine.model.kv_buffer import KVBuffer, RowPass
from engine.prefill.context import PromptContext
from engine.strategies.base import Strategy
from engine.trace import Trace
from engine.types import Deviation, Placement, RecomputePlan, RowFilter, SelectionContext


@dataclass(frozen=True)
class PrefillResult:
    """A prompt with complete KV."""

    buffer: KVBuffer  # with capacity for the answer
    logits: Tensor  # [V] of the first token
    rows: Tensor  # [R] slots before the question that got fresh KV; with a row filter, those that passed it first
    actual_ratio: float  # recomputed / reusable tokens; with a row filter, the mean from the first filtered layer on
    flops: float  # floating-point operations of the main model's pass, the question and unfiltered layers included
    tiers: tuple[str, ...]  # the source of each chunk's KV: a tier's name, 'computed', or 'none' without reuse
    num_path_chunks: int  # leading chunks whose KV came from one exact path
    num_exact_chunks: int  # leading chunks whose KV in the buffer is exact
    touched_nodes: tuple[Node, ...] = ()  # tree nodes that were read
    # What the strategy selected from: with the scores it read, and with the chunks that are exact by now.
    selection: SelectionContext | None = None
    reason: str = ""  # why so much was recomputed, as a sentence for the user; empty if it was requested


def prefill(context: PromptContext, strategy: Strategy, trace: Trace, cancel: Event | None = None) -> PrefillResult:
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
        selection, scores = context.selection_context(strategy.placement).recording()
        plan = plan_recompute(strategy, selection)
    with trace.stage("recompute" if strategy.reuses_kv else "prefill"):
        logits, rows, ratio, flops = _recompute(context, buffer, plan, cancel)
    nodes = tuple(context.touched_nodes)
    num_exact_chunks = max(selection.num_exact_chunks, plan.num_exact_chunks)
    selection = replace(selection.with_scores(scores), num_exact_chunks=num_exact_chunks)
    return PrefillResult(
        buffer,
        logits,
        rows,
        ratio,
        flops,
        tiers,
        num_path_chunks,
        plan.num_exact_chunks,
        nodes,
        selection,
        plan.reason,
    )


def plan_recompute(strategy: Strategy, context: SelectionContext) -> RecomputePlan:
    """Return the strategy's plan without the rows of an exact path, unless it covers the whole context.

    Strategies themselves only rely on the first chunk being exact. Also sets the plan's `num_exact_chunks`.
    """
    plan = strategy.plan(context)
    covers_context = plan.row_filter is None and len(plan.rows) >= context.context_tokens
    if context.num_exact_chunks >= 2 and not covers_context:
        plan = replace(plan, rows=plan.rows[plan.rows >= context.spans[context.num_exact_chunks - 1].stop])
    return replace(plan, num_exact_chunks=_count_exact_chunks(plan, context, strategy))


def _count_exact_chunks(plan: RecomputePlan, context: SelectionContext, strategy: Strategy) -> int:
    """Return how many leading chunks have exact KV after recomputation: exact before, or recomputed as a whole."""
    num_exact = 0
    if strategy.reuses_kv:
        is_exact_layout = strategy.placement in (Placement.CONCATENATED, Placement.EXACT_PREFIX)
        if not is_exact_layout or plan.row_filter is not None or plan.parallel_attention:
            return 0
        num_exact = context.num_exact_chunks
    for span in context.spans[num_exact:]:
        if int(((plan.rows >= span.start) & (plan.rows < span.stop)).sum()) < len(span):
            break
        num_exact += 1
    return num_exact


def _recompute(
    context: PromptContext, buffer: KVBuffer, plan: RecomputePlan, cancel: Event | None
) -> tuple[Tensor, Tensor, float, float]:
    """Compute fresh KV for the plan's rows and the question in one pass; return logits, rows, actual ratio and FLOPs.

    A plan that covers the whole context runs the same pass as full prefill, so the result is equal bit for bit.
    """
    decoder, spec = context.cache.decoder, context.cache.decoder.spec
    ids, query_rows = context.ids, context.query_rows
    lengths = [len(span) for span in context.spans]
    num_tokens = sum(lengths)
    if plan.parallel_attention is not None and lengths:
        slots = slice(context.spans[0].start, context.spans[-1].stop)
        buffer.parallel = ParallelLayout(slots, max(lengths), plan.parallel_attention)
    if plan.row_filter is not None:
        logits, rows_by_layer, first_layer = prefill_filtered(context, buffer, plan.rows, plan.row_filter, cancel)
        filtered = rows_by_layer[first_layer:]
        ratio = sum(map(len, filtered)) / (len(filtered) * num_tokens) if num_tokens else 0.0
        flops = sum(spec.flops_at(torch.cat((kept, query_rows))) / spec.num_layers for kept in rows_by_layer)
        return logits, filtered[0], ratio, flops
    covers_context = len(plan.rows) >= num_tokens
    rows = torch.arange(len(ids)) if covers_context else torch.cat((plan.rows, query_rows))
    ratio = min(1.0, len(plan.rows) / num_tokens) if num_tokens else 0.0
    logits = decoder.forward_rows(ids[rows], buffer, rows, cancel)
    return logits, plan.rows, ratio, spec.flops_at(rows)


@torch.inference_mode()
def prefill_filtered(
    context: PromptContext, buffer: KVBuffer, rows: Tensor, row_filter: RowFilter, cancel: Event | None = None
) -> tuple[Tensor, list[Tensor], int]:
    """Compute KV for context `rows` [R] and the question, dropping rows between layers (CacheBlend, arXiv:2405.16444).

    Returns the logits [V] of the last row, the context rows that got fresh KV in each layer, and the first filtered
    layer, or 0 if none was.
    """
    decoder, query_rows = context.cache.decoder, context.query_rows
    slots = torch.cat((rows, query_rows))
    hidden, rotation = decoder.embed(context.ids[slots][None], slots[None])
    row_pass = RowPass(buffer, slots)
    rows_by_layer = []
    first_filtered_layer = 0
    memory: Memory = {}
    for layer in range(decoder.spec.num_layers):
        kept = row_filter(layer, partial(_measure_deviation, decoder, layer, hidden, rotation, buffer, rows))
        if kept is not None:
            first_filtered_layer = first_filtered_layer or layer
            indices = torch.cat((kept, torch.arange(len(rows), len(rows) + len(query_rows))))
            hidden = hidden[:, indices]
            rotation = rotation[0][:, indices], rotation[1][:, indices]
            rows = rows[kept]
            row_pass = RowPass(buffer, torch.cat((rows, query_rows)))
        rows_by_layer.append(rows)
        hidden = decoder.run_layer(layer, hidden, rotation, row_pass, cancel, memory)
    return decoder.logits(hidden[0, -1]), rows_by_layer, first_filtered_layer


def _measure_deviation(
    decoder: Decoder, layer: int, hidden: Tensor, rotation: tuple[Tensor, Tensor], buffer: KVBuffer, slots: Tensor
) -> Deviation:
    """Return the deviation of `slots` [R] in a layer; theirs are the first R rows of hidden and rotation."""
    if not (count := len(slots)):
        return Deviation(torch.empty(0), torch.empty(0))
    fresh = _KVCapture()
    with suppress(_LayerStopped):
        decoder.run_layer(layer, hidden[:, :count], (rotation[0][:, :count], rotation[1][:, :count]), fresh)
    return Deviation(
        _squared_difference(fresh.keys[0], buffer.keys[layer][:, slots]),
        _squared_difference(fresh.values[0], buffer.values[layer][:, slots]),
    )


def _squared_difference(fresh: Tensor, cached: Tensor) -> Tensor:
    """Return the squared difference of two [H, R, D], summed over heads and width, [R] on the CPU."""
    return (fresh.float() - cached.float()).square().sum(dim=(0, 2)).cpu()


class _LayerStopped(Exception):
    """Ends a layer after its keys and values were captured."""


class _KVCapture:
    """An `AttentionPass` that captures a layer's fresh keys and values, and ends the layer before attention."""

    keys: Tensor
    values: Tensor

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self.keys = keys
        self.values = values
        raise _LayerStopped

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        raise AssertionError("the layer ends before its attention")
