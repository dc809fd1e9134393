"""What an answer's method would recompute at another ratio, from the scores of its prefill: no model runs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import compress, pairwise
from typing import Any

import torch
from torch import Tensor

from engine.cache.cost_model import CostModel
from engine.fidelity import FidelityCurve
from engine.kv.chunk_cache import chunk_spans
from engine.model.tokenizer import TokenizedText
from engine.prefill.prefill import PrefillResult, plan_recompute
from engine.prompt.pack import PreparedPrompt
from engine.request import Answer, MarkedPassage, RatioPreview, TextSpan
from engine.strategies import Strategy
from engine.types import ScoresUnavailable


def ratio_preview(
    answer: Answer,
    prepared: PreparedPrompt,
    result: PrefillResult,
    num_prefix_tokens: int,
    strategy: Strategy,
    costs: CostModel | None,
    fidelity: FidelityCurve | None,
) -> Callable[[float], RatioPreview | None] | None:
    """Return `Answer.preview`. It is kept with the answer, so it refers to neither KV nor models."""
    selection = result.selection
    if selection is None or not hasattr(strategy, "ratio"):
        return None
    texts, passages, method = prepared.texts, prepared.passages, answer.request.method
    predict_ttft = ttft_prediction(answer, costs)
    base: Any = strategy

    def preview(ratio: float) -> RatioPreview | None:
        try:
            plan = plan_recompute(replace(base, ratio=ratio), selection)
        except ScoresUnavailable:
            return None
        if plan.row_filter is not None:
            return None
        marked = mark_passages(plan.rows, num_prefix_tokens, texts, passages)
        is_exact = selection.num_exact_chunks >= len(texts)
        expected_kl = expected_kl_of(method, ratio, is_exact, fidelity)
        return RatioPreview(marked, predict_ttft(len(plan.rows)), expected_kl, is_exact)

    return preview


def expected_kl_of(method: str, ratio: float, is_exact: bool, fidelity: FidelityCurve | None) -> float | None:
    """Return `Answer.expected_kl` at a ratio: 0 if all is recomputed or exact, None for a method not calibrated."""
    if is_exact or ratio == 1:
        return 0.0
    return fidelity.expected_kl(ratio) if fidelity is not None and fidelity.method == method else None


def ttft_prediction(answer: Answer, costs: CostModel | None) -> Callable[[int], float | None]:
    """Return a function that predicts the TTFT in ms if so many of the context's tokens are recomputed.

    The time of recomputing is the answer's own, scaled by the machine's measured cost of prefill. The other stages take
    as long as before, except that nothing waits for other requests or a draft, and the passages are in memory by now.
    Returns None if the passages had to be computed or the prefill was speculative: the next request differs too much.
    """
    trace = answer.trace
    lengths = {stage.name: stage.length_ms for stage in trace.stages}
    is_computed = any(source.tier == "computed" for source in answer.sources)
    if costs is None or trace.ttft_ms is None or is_computed or "speculation" in lengths:
        return lambda recomputed_tokens: None
    ttft_ms = trace.ttft_ms - sum(lengths.get(name, 0.0) for name in ("queue", "draft", "verify"))
    if not trace.waited_for("recompute"):
        return lambda recomputed_tokens: ttft_ms
    ttft_ms -= lengths.get("load", 0.0)
    context_tokens, prompt_tokens, question_tokens = answer.context_tokens, answer.prompt_tokens, answer.question_tokens

    def cost_ms(recomputed_tokens: int) -> float:
        is_full = recomputed_tokens >= context_tokens  # the shared prefix is computed as well
        rows = prompt_tokens if is_full else recomputed_tokens + question_tokens
        return costs.estimate_ms(prompt_tokens - rows, rows)

    recompute_ms, own_cost_ms = lengths["recompute"], cost_ms(answer.recomputed_tokens)
    if not own_cost_ms:
        return lambda recomputed_tokens: None
    return lambda recomputed_tokens: ttft_ms + recompute_ms * (cost_ms(recomputed_tokens) / own_cost_ms - 1)


def mark_passages(
    rows: Tensor, num_prefix_tokens: int, texts: Sequence[str], passages: Sequence[TokenizedText]
) -> tuple[MarkedPassage, ...]:
    """Return each passage with the text of the recomputed `rows`, [R] prompt slots, marked."""
    spans = chunk_spans(num_prefix_tokens, [len(passage.ids) for passage in passages])
    is_recomputed = torch.zeros(spans[-1].stop if spans else num_prefix_tokens, dtype=torch.bool)
    is_recomputed[rows] = True
    flags = [is_recomputed[span.start : span.stop].tolist() for span in spans]
    return tuple(
        MarkedPassage(_split_text(text, passage, tokens), sum(tokens))
        for text, passage, tokens in zip(texts, passages, flags, strict=True)
    )


def _split_text(text: str, passage: TokenizedText, is_recomputed: Sequence[bool]) -> tuple[TextSpan, ...]:
    """Split a passage's text wherever recomputed and reused tokens meet."""
    bounds = [0]  # of parts that are reused, recomputed, reused and so on; the first may be empty
    for start, end in compress(passage.spans, is_recomputed):
        if len(bounds) > 1 and start <= bounds[-1]:
            bounds[-1] = max(bounds[-1], end)
        else:
            bounds += [start, end]
    parts = enumerate(pairwise([*bounds, len(text)]))
    return tuple(TextSpan(text[start:end], index % 2 == 1) for index, (start, end) in parts if start < end)
