"""Carry out a plan: fresh KV for its rows and for the question, in one pass, up to the first token's logits."""

from dataclasses import replace
from threading import Event

import torch
from torch import Tensor

from engine.model.buffer import KVBuffer, Parallel
from engine.model.decoder import Decoder
from engine.reuse.evidence import Evidence
from engine.reuse.strategies.strategy import Strategy
from engine.reuse.thinning import prefill_thinning
from engine.types import Placement, Plan, View


def without_path(plan: Plan, view: View) -> Plan:
    """Leave out the rows of an exact path of several chunks, unless the plan covers everything.

    Methods know that the first chunk is exact; whatever else the knowledge tree found needs no recomputing either.
    """
    everything = plan.thin is None and len(plan.rows) >= view.context_tokens
    if view.exact < 2 or everything:
        return plan
    return replace(plan, rows=plan.rows[plan.rows >= view.spans[view.exact - 1].stop])


def exact_chunks(plan: Plan, view: View, strategy: Strategy) -> int:
    """Return how many leading chunks have exact KV once the plan is carried out: found exact, or computed whole."""
    moved = strategy.placement not in (Placement.JOINED, Placement.PATH)
    if strategy.reuses and (moved or plan.thin is not None or plan.merge):
        return 0
    fresh = set(plan.rows.tolist())
    exact = view.exact if strategy.reuses else 0
    while exact < len(view.spans) and fresh.issuperset(view.spans[exact]):
        exact += 1
    return exact


def recompute(
    decoder: Decoder, evidence: Evidence, buffer: KVBuffer, plan: Plan, cancel: Event | None = None
) -> tuple[Tensor, Tensor, float]:
    """Return the first token's logits [V], the slots that got fresh KV [R], and the realised ratio.

    A plan that covers the whole context takes the full prefill's own pass, so that it is equal bit for bit. Where rows
    are dropped on the way, the slots are those that were chosen first, and the ratio is the mean over the layers from
    there on: what comes before is the price of choosing.
    """
    ids, asked, lengths = evidence.ids, evidence.question, [len(span) for span in evidence.spans]
    context = sum(lengths)
    if plan.merge is not None and lengths:
        buffer.parallel = Parallel(slice(evidence.spans[0].start, evidence.spans[-1].stop), max(lengths), plan.merge)
    if plan.thin is not None:
        rows = torch.cat((plan.rows, asked))
        left = prefill_thinning(decoder, ids[rows], buffer, rows, len(asked), plan.thin, cancel)
        counted = left.rows[left.chosen :]
        return left.logits, counted[0], sum(map(len, counted)) / (len(counted) * context) if context else 0.0
    rows = torch.arange(len(ids)) if len(plan.rows) >= context else torch.cat((plan.rows, asked))
    ratio = min(1.0, len(plan.rows) / context) if context else 0.0
    return decoder.prefill(ids[rows], buffer, rows, cancel), plan.rows, ratio
