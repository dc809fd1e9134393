"""From a strategy's choice to the plan that is carried out: exact chunks need no fresh KV."""

from dataclasses import replace

from torch import Tensor

from engine.strategies.base import Strategy
from engine.types import Placement, RecomputePlan, SelectionContext


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
    is_exact_layout = strategy.placement in (Placement.CONCATENATED, Placement.EXACT_PREFIX)
    if strategy.reuses_kv and (not is_exact_layout or plan.row_filter is not None or plan.parallel_attention):
        return 0
    num_exact = context.num_exact_chunks if strategy.reuses_kv else 0
    while num_exact < len(context.spans) and _covers(plan.rows, context.spans[num_exact]):
        num_exact += 1
    return num_exact


def _covers(rows: Tensor, span: range) -> bool:
    return int(((rows >= span.start) & (rows < span.stop)).sum()) == len(span)
