"""Run one question through every variant: same token ids, question always prefilled, result decoding from its own KV.

Full prefill, chunk KV, auxiliary scores and the oracle's attention are computed once and shared by all variants.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from bench.data.item import Item
from bench.errors import InvalidArgument
from bench.harness.variants import Variant
from bench.metrics import METRICS
from engine.analysis.agreement import ANSWER_KL_TOKENS, compare_logits, logits_along
from engine.analysis.divergence import jaccard
from engine.engine import Engine, PrefillResult
from engine.model.sampling import TokenSampler, decode_batch
from engine.prefill.context import PromptContext
from engine.prompt.pack import PreparedPrompt
from engine.strategies import OracleWindows
from engine.trace import Trace
from engine.types import Placement

FULL = "full@1"
EXTRA_METRICS = {  # in addition to the headline metric
    "f1": ("exact", "rouge_l", "contains"),
    "f1_zh": ("exact_zh", "f1", "rouge_zh", "contains"),
}


def run_variants(
    engine: Engine, item: Item, prompt: PreparedPrompt, variants: Sequence[Variant]
) -> dict[str, dict[str, Any]]:
    """Return the outcome of each variant by its key, including full prefill's."""
    context = engine.prompt_context(prompt, Trace())
    context.chunk_set(Placement.CONCATENATED)  # load now: exact paths must not depend on earlier variants
    reference = context.reference
    everything = torch.arange(int(context.query_rows[0]))
    operations = engine.cache.decoder.spec.flops_at(torch.arange(len(context.ids)))
    results = {
        FULL: PrefillResult(
            reference.buffer,
            reference.logits,
            everything,
            1.0,
            operations,
            (),
            num_path_chunks=0,
            num_exact_chunks=len(context.spans),
        )
    }
    for variant in variants:
        if variant.key != FULL:
            results[variant.key] = engine.prefill(prompt, variant.strategy, Trace(), context=context)
    samplers = [engine.sampler(prompt, Trace(), TokenSampler()) for _ in results]
    answers = decode_batch(
        engine.cache.decoder,
        [result.buffer for result in results.values()],
        [sampler.sample(result.logits) for sampler, result in zip(samplers, results.values(), strict=True)],
        samplers,
        engine.template.stop_ids,
        item.max_new_tokens,
    )
    answer_ids = answers[0][:ANSWER_KL_TOKENS]
    reusing = {variant.key for variant in variants if variant.strategy.reuses_kv}
    outcomes: dict[str, dict[str, Any]] = {}
    expected = _answer_logits(engine, results[FULL], context, answer_ids)
    for (key, result), answer in zip(results.items(), answers, strict=True):
        outcomes[key] = {
            **asdict(compare_logits(expected, _answer_logits(engine, result, context, answer_ids))),
            "realised_ratio": result.actual_ratio,
            "floor_speedup": operations / result.flops,
            "reused_bytes": _reused_bytes(engine, prompt, result) if key in reusing else 0,
            "oracle_overlap": _oracle_overlap(context, result),
            **_scores(engine, item, answer),
        }
    return outcomes


def prepare_item(engine: Engine, item: Item, max_tokens: int) -> tuple[PreparedPrompt, int]:
    """Return an item's prompt, and how many of its passages were dropped to fit.

    max_tokens  of the context; passages in the middle are dropped first, as LongBench truncates

    Raises InvalidArgument if no passage fits.
    """
    prompt = engine.template
    question = prompt.suffix_ids(item.question) + prompt.tokenizer.encode(item.opening).ids
    available = min(max_tokens, engine.max_tokens - len(prompt.prefix_ids) - len(question) - item.max_new_tokens)
    kept = [(text, prompt.passage(text)) for text in item.passages]
    tokens = sum(len(passage.ids) for _, passage in kept)
    while tokens > available and kept:
        _, passage = kept.pop(len(kept) // 2)
        tokens -= len(passage.ids)
    if not kept:
        more = "Give a larger --context-lengths" if available == max_tokens else "This is the model's whole context"
        raise InvalidArgument(f"No passage of {item.id} fits into {available} tokens. {more}, or shorten the passages.")
    texts, passages = tuple(text.strip() for text, _ in kept), tuple(passage for _, passage in kept)
    return PreparedPrompt(texts, passages, item.question, item.question, question, item.max_new_tokens), len(
        item.passages
    ) - len(kept)


def _answer_logits(engine: Engine, result: PrefillResult, context: PromptContext, answer_ids: list[int]) -> Tensor:
    return logits_along(engine.cache.decoder, result.buffer, result.logits, len(context.ids), answer_ids)


def _reused_bytes(engine: Engine, prompt: PreparedPrompt, result: PrefillResult) -> int:
    """Return the bytes of the passages' KV that was reused."""
    decoder = engine.cache.decoder
    return decoder.spec.kv_bytes(round(prompt.context_tokens * (1 - result.actual_ratio)), decoder.dtype.itemsize)


def _oracle_overlap(context: PromptContext, result: PrefillResult) -> float | None:
    """Return the Jaccard index of the recomputed tokens with the oracle's selection at the same budget."""
    selection = context.selection_context()
    ratio = len(result.rows) / selection.context_tokens  # lower than requested for methods that filter rows
    return jaccard(result.rows, OracleWindows(ratio).plan(selection).rows) if 0 < ratio < 1 else None


def _scores(engine: Engine, item: Item, answer: list[int]) -> dict[str, Any]:
    text = engine.template.tokenizer.decode([token for token in answer if token not in engine.template.stop_ids])
    names = (item.metric, *EXTRA_METRICS.get(item.metric, ()))
    return {"answer": text, "scores": {name: METRICS[name](text, item.answers) for name in names}}
