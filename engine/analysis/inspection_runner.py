"""Asks the models what they look at, and every method what it would recompute; plain arrays out."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from engine.analysis.attention_profile import AttentionProfile
from engine.analysis.divergence import jaccard, kl, renormalised
from engine.analysis.inspection import PERCENTS, Excerpt, Inspection, Selection, Step
from engine.analysis.sinks import sinks, window_ranks
from engine.errors import Cancelled, NoPassageFound
from engine.method import params_of
from engine.prefill.context import PromptContext
from engine.prefill.recompute import without_path
from engine.prompt.builder import PreparedPrompt, build_strategy, validate
from engine.request import Request
from engine.strategies import STRATEGIES, Full, OracleWindows, Strategy
from engine.strategies.windows import top_tokens
from engine.trace import Trace
from engine.types import Placement, ScoreMode, SelectionContext

if TYPE_CHECKING:
    from engine.engine import Engine


def inspect(engine: "Engine", request: Request, cancel: Event) -> Iterator[Step]:
    """Yield what is being done, a step at a time; the last step holds what was found. Nothing is answered.

    Costs a full prefill. Raises BadRequest or QuestionTooLong before anything is computed, NoPassageFound without a
    passage to look at, and Cancelled once `cancel` is set.
    """
    validate(request)
    trace = Trace(synchronize=engine.cache.decoder.synchronize)
    every = {name: build_strategy(replace(request, method=name, options={})) for name in STRATEGIES}
    yield Step("Finding passages")
    with engine.track_deletions():
        reading = engine.prepare(request, trace)
        if not reading.passages:
            raise NoPassageFound("No passage was found to look at.")
        yield Step("Waiting for the model")
        with (
            engine.acquire(reading, Full(), trace, cancel),
            closing(engine.prompt_context(reading, trace, cancel)) as evidence,
        ):
            yield Step("Loading what is stored of the passages")
            evidence.chunks(Placement.CONCATENATED)
            yield Step(f"Reading all {reading.context_tokens:,} tokens of the passages, once and in full")
            _ = evidence.reference
            yield Step("Asking the small model where it looks")
            seen = attention_profile(evidence, request.recompute_ratio, every)
            selections = {}
            for name, strategy in every.items():
                yield Step(f"{strategy.label}: what it would recompute at every ratio")
                if cancel.is_set():
                    raise Cancelled
                if (found := selection(strategy, view_for(evidence, strategy))) is not None:
                    selections[name] = found
            yield Step("Done", _inspection(seen, reading, evidence, selections))


def attention_profile(
    evidence: PromptContext, ratio: float, methods: dict[str, Strategy] | None = None
) -> AttentionProfile:
    """Compare what the models look at. Costs a full prefill, unless the evidence holds one.

    ratio    of the context tokens that count as looked at, in [0, 1], sinks left out
    methods  by name, whose plans are compared with the oracle's of the same size; those that plan layer by layer have
             no plan beforehand and are left out
    """
    primary, scores = evidence.reference.attention, evidence.scores(ScoreMode.PER_CHUNK)
    view, overlap = evidence.selection_context(), {}
    left_out = sinks(primary.numpy(), view.lengths)
    layers, theirs = (each[..., torch.from_numpy(~left_out)] for each in (primary, scores))
    last, chosen = layers[-1], top_tokens(layers[-1], ratio)
    for name, strategy in (methods or {}).items():
        plan = without_path(strategy.plan(view), view)
        share = len(plan.rows) / view.context_tokens if view.context_tokens else 0.0
        if plan.row_filter is None and 0 < share < 1:
            overlap[name] = jaccard(plan.rows, OracleWindows(share).plan(view).rows)
    return AttentionProfile(
        renormalised(scores).numpy(),
        renormalised(primary).numpy(),
        float(kl(last, theirs)),
        kl(last, layers).numpy(),
        jaccard(chosen, top_tokens(theirs, ratio)),
        np.array([jaccard(chosen, top_tokens(layer, ratio)) for layer in layers]),
        overlap,
        ratio,
        tuple(view.lengths),
        left_out,
    )


def view_for(evidence: PromptContext, strategy: Strategy) -> SelectionContext:
    """Return what the strategy plans from. Chunks are loaded where it matters what of them is exact."""
    if strategy.reuses and strategy.placement in (Placement.CONCATENATED, Placement.EXACT_PREFIX):
        evidence.chunks(strategy.placement)
    return evidence.selection_context(strategy.placement)


def selection(strategy: Strategy, view: SelectionContext) -> Selection | None:
    """Return what a strategy recomputes at each ratio, by its own plan; None where it decides on its way."""
    if strategy.plan(view).row_filter is not None:
        return None
    has_ratio = any(setting.name == "ratio" for setting in params_of(type(strategy)))
    if not has_ratio:
        return Selection.of(np.broadcast_to(_taken(strategy, view), (PERCENTS, view.context_tokens)), has_ratio)
    settable: Any = strategy
    at_each = (replace(settable, ratio=percent / 100) for percent in range(PERCENTS))
    return Selection.of(np.stack([_taken(each, view) for each in at_each]))


def _taken(strategy: Strategy, view: SelectionContext) -> np.ndarray:
    """Return which context tokens the strategy's plan gives fresh KV, [T] bool."""
    start = view.spans[0].start
    taken = np.zeros(start + view.context_tokens, dtype=bool)
    taken[without_path(strategy.plan(view), view).rows.numpy()] = True
    return taken[start:]


def _inspection(
    seen: AttentionProfile, reading: PreparedPrompt, evidence: PromptContext, selections: dict[str, Selection]
) -> Inspection:
    excerpts = tuple(
        Excerpt(
            hit.chunk.document_name,
            hit.chunk.page,
            text,
            np.minimum(np.array(encoded.spans, dtype=np.int32).reshape(-1, 2), len(text)),
        )
        for hit, text, encoded in zip(reading.hits, reading.texts, reading.passages, strict=True)
    )
    scores, last = evidence.scores(ScoreMode.PER_CHUNK), evidence.reference.attention[-1]
    kept = torch.from_numpy(~seen.sinks)
    return Inspection(
        **vars(seen),
        question=reading.standalone_question,
        excerpts=excerpts,
        exact=evidence.selection_context().num_exact_chunks,
        selections=selections,
        alike={"auxiliary": _alike_top(last[kept], scores[kept])} | _alike_oracle(selections),
        ranks=np.stack([window_ranks(values.numpy(), seen.passages) for values in (scores, last)]),
    )


def _alike_top(last: Tensor, scores: Tensor) -> np.ndarray:
    """Return the Jaccard of the two's top tokens at each ratio, [101]."""
    ratios = [percent / 100 for percent in range(1, PERCENTS)]
    return np.array([np.nan, *(jaccard(top_tokens(last, ratio), top_tokens(scores, ratio)) for ratio in ratios)])


def _alike_oracle(selections: dict[str, Selection]) -> dict[str, np.ndarray]:
    """Return the Jaccard of each method's tokens and as many of the oracle's, at each ratio, [101] by method."""
    return {
        name: np.array([_alike(chosen.at(percent), selections["oracle"]) for percent in range(PERCENTS)])
        for name, chosen in selections.items()
        if chosen.has_ratio
    }


def _alike(taken: np.ndarray, oracle: Selection) -> float:
    if not taken.any():
        return float("nan")
    best = oracle.at(round(100 * taken.mean()))
    return float((taken & best).sum() / (taken | best).sum())
