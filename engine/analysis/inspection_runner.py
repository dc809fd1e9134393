"""Inspect a question: measure both models' attention and evaluate every method's plan at every ratio."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.analysis.agreement import jaccard, kl_divergence, renormalize
from engine.analysis.inspection import (
    PERCENTS,
    AttentionProfile,
    InspectedPassage,
    Inspection,
    InspectionStep,
    RatioSelection,
    find_sinks,
    window_ranks,
)
from engine.engine import Engine
from engine.errors import Cancelled, NoPassageFound
from engine.prefill.context import PromptContext
from engine.prefill.prefill import plan_recompute
from engine.prompt.pack import PreparedPrompt
from engine.prompt.validate import build_strategy, validate
from engine.request import Request
from engine.strategies import STRATEGIES, Full, OracleWindows, Strategy
from engine.strategies.windows import top_tokens
from engine.trace import Trace
from engine.types import Placement, ScoreMode, SelectionContext


def inspect(engine: Engine, request: Request, cancel: Event) -> Iterator[InspectionStep]:
    """Yield progress steps, the last one with the result; no answer is generated. Costs a full prefill.

    Raises BadRequest or QuestionTooLong before anything is computed, NoPassageFound, and Cancelled.
    """
    validate(request)
    trace = Trace(synchronize=engine.cache.decoder.synchronize)
    strategies = {name: build_strategy(replace(request, method=name, options={})) for name in STRATEGIES}
    yield InspectionStep("Retrieving passages")
    with engine.passages.track_deletions():
        prompt = engine.prepare(request, trace)
        if not prompt.passages:
            raise NoPassageFound("No passages were found for this question.")
        yield InspectionStep("Waiting for the model")
        with (
            engine.acquire(prompt, Full(), trace, cancel),
            closing(engine.prompt_context(prompt, trace, cancel)) as context,
        ):
            yield InspectionStep("Loading the passages' KV cache")
            context.chunk_set(Placement.CONCATENATED)
            yield InspectionStep(f"Running a full prefill of {prompt.context_tokens:,} passage tokens")
            _ = context.reference
            yield InspectionStep("Scoring tokens with the auxiliary model")
            profile = attention_profile(context, request.recompute_ratio, strategies)
            selections = {}
            for name, strategy in strategies.items():
                yield InspectionStep(f"{strategy.label}: selecting tokens at every ratio")
                if cancel.is_set():
                    raise Cancelled
                if strategy.reuses_kv and strategy.placement in (Placement.CONCATENATED, Placement.EXACT_PREFIX):
                    context.chunk_set(strategy.placement)  # the plan depends on which chunks are exact
                selection = selection_by_ratio(strategy, context.selection_context(strategy.placement))
                if selection is not None:
                    selections[name] = selection
            yield InspectionStep("Done", _build_inspection(profile, prompt, context, selections))


def attention_profile(
    context: PromptContext, ratio: float, methods: dict[str, Strategy] | None = None
) -> AttentionProfile:
    """Compare the models' attention. Costs a full prefill, unless the context holds one already.

    ratio    fraction of the context tokens, sinks excluded, that counts as "most attended"
    methods  by name; each plan is compared with the oracle's of the same size, unless it depends on the forward pass
    """
    primary = context.reference.attention
    auxiliary = context.scores(ScoreMode.PER_CHUNK)
    view = context.selection_context()
    sinks = find_sinks(primary.numpy(), view.lengths)
    is_counted = torch.from_numpy(~sinks)
    layers = primary[..., is_counted]
    scores = auxiliary[..., is_counted]
    last = layers[-1]
    top = top_tokens(last, ratio)
    overlap = {}
    for name, strategy in (methods or {}).items():
        plan = plan_recompute(strategy, view)
        budget = len(plan.rows) / view.context_tokens if view.context_tokens else 0.0
        if plan.row_filter is None and 0 < budget < 1:
            overlap[name] = jaccard(plan.rows, OracleWindows(budget).plan(view).rows)
    return AttentionProfile(
        auxiliary=renormalize(auxiliary).numpy(),
        primary=renormalize(primary).numpy(),
        kl_auxiliary=float(kl_divergence(last, scores)),
        kl_layers=kl_divergence(last, layers).numpy(),
        jaccard_auxiliary=jaccard(top, top_tokens(scores, ratio)),
        jaccard_layers=np.array([jaccard(top, top_tokens(layer, ratio)) for layer in layers]),
        oracle_overlap=overlap,
        ratio=ratio,
        passage_lengths=tuple(view.lengths),
        sinks=sinks,
    )


def selection_by_ratio(strategy: Strategy, view: SelectionContext) -> RatioSelection | None:
    """Return the tokens of the strategy's plan at each ratio; None if it selects during the forward pass."""
    if strategy.plan(view).row_filter is not None:
        return None
    base: Any = strategy
    by_ratio = [replace(base, ratio=percent / 100) for percent in range(PERCENTS)] if hasattr(base, "ratio") else [base]
    start = view.spans[0].start
    masks = np.zeros((len(by_ratio), start + view.context_tokens), dtype=bool)
    for mask, each in zip(masks, by_ratio, strict=True):
        mask[plan_recompute(each, view).rows.numpy()] = True
    return RatioSelection.from_masks(masks[:, start:])


def _build_inspection(
    profile: AttentionProfile, prompt: PreparedPrompt, context: PromptContext, selections: dict[str, RatioSelection]
) -> Inspection:
    passages = tuple(
        InspectedPassage(
            hit.chunk.document_name,
            hit.chunk.page,
            text,
            np.minimum(np.array(encoded.spans, dtype=np.int32).reshape(-1, 2), len(text)),
        )
        for hit, text, encoded in zip(prompt.hits, prompt.texts, prompt.passages, strict=True)
    )
    scores = context.scores(ScoreMode.PER_CHUNK)
    last = context.reference.attention[-1]
    is_counted = torch.from_numpy(~profile.sinks)
    agreement = {"auxiliary": _top_token_curve(last[is_counted], scores[is_counted])}
    for name, selection in selections.items():
        if selection.has_ratio:
            agreement[name] = _oracle_curve(selection, selections["oracle"])
    return Inspection(
        **vars(profile),
        question=prompt.standalone_question,
        passages=passages,
        num_exact_passages=context.selection_context().num_exact_chunks,
        selections=selections,
        agreement=agreement,
        window_ranks=np.stack([window_ranks(values.numpy(), profile.passage_lengths) for values in (scores, last)]),
    )


def _top_token_curve(one: Tensor, other: Tensor) -> np.ndarray:
    """Return the Jaccard of both score vectors' top tokens at each ratio, [101]."""
    ratios = [percent / 100 for percent in range(1, PERCENTS)]
    return np.array([np.nan, *(jaccard(top_tokens(one, ratio), top_tokens(other, ratio)) for ratio in ratios)])


def _oracle_curve(selection: RatioSelection, oracle: RatioSelection) -> np.ndarray:
    """Return the Jaccard of a method's tokens with as many of the oracle's at each ratio, [101]."""
    curve = np.full(PERCENTS, np.nan)
    for percent in range(PERCENTS):
        mask = selection.mask_at(percent)
        if mask.any():
            best = oracle.mask_at(round(100 * mask.mean()))
            curve[percent] = (mask & best).sum() / (mask | best).sum()
    return curve
