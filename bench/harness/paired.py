"""Parse the variants of the command line, and run one question through all of them.

They read the same token ids, the question is always prefilled, and each answer is decoded from the variant's own KV.
Full prefill, chunk KV, auxiliary scores and the oracle's attention are computed once and shared by all variants.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from bench.data.item import Item
from bench.errors import InvalidArgument
from bench.metrics import METRICS
from engine.analysis.agreement import ANSWER_KL_TOKENS, compare_logits, logits_along
from engine.analysis.divergence import jaccard
from engine.analysis.variants import Variant, variants_of
from engine.engine import Engine, PrefillResult
from engine.method import parse_params
from engine.model.sampling import SamplingParams, decode_batch
from engine.prefill.context import PromptContext
from engine.prompt.pack import PreparedPrompt
from engine.strategies import STRATEGIES, OracleWindows
from engine.trace import Trace
from engine.types import Placement

FULL = "full@1"
EXTRA_METRICS = {  # in addition to the headline metric
    "f1": ("exact", "rouge_l", "contains"),
    "f1_zh": ("exact_zh", "f1", "rouge_zh", "contains"),
}


def parse_variants(methods: Sequence[str], ratios: Sequence[float]) -> list[Variant]:
    """Return a variant for each method ('cacheclip', 'epic:tokens=16') and, if it has a ratio, each ratio.

    Duplicates are dropped. Raises InvalidArgument for an unknown method or parameter, or a value out of range.
    """
    variants: list[Variant] = []
    for method in dict.fromkeys(method.rstrip(":") for method in methods):
        name, _, assignments = method.partition(":")
        if name not in STRATEGIES:
            raise InvalidArgument(f"The method {name!r} is not one of {', '.join(STRATEGIES)}.")
        pairs = [pair.partition("=") for pair in assignments.split(",") if pair]
        try:
            params = parse_params(STRATEGIES[name], {param: value for param, _, value in pairs})
            variants += variants_of(name, list(dict.fromkeys(ratios)), params, method_name=method)
        except ValueError as error:
            raise InvalidArgument(f"{method!r}: {error}.") from error
    return variants


def run_variants(
    engine: Engine, item: Item, prompt: PreparedPrompt, variants: Sequence[Variant]
) -> dict[str, dict[str, Any]]:
    """Return the outcome of each variant by its key, including full prefill's."""
    decoder = engine.cache.decoder
    context = engine.prompt_context(prompt, Trace())
    context.chunk_set(Placement.CONCATENATED)  # load now: exact paths must not depend on earlier variants
    results = {FULL: _full_prefill(engine, context)}
    for variant in variants:
        if variant.key != FULL:
            results[variant.key] = engine.prefill(prompt, variant.strategy, Trace(), context=context)
    samplers = [engine.sampler(prompt, Trace(), SamplingParams()) for _ in results]
    answers = decode_batch(
        decoder,
        [result.buffer for result in results.values()],
        [sampler.sample(result.logits) for sampler, result in zip(samplers, results.values(), strict=True)],
        samplers,
        engine.template.stop_ids,
        item.max_new_tokens,
    )

    def answer_logits(result: PrefillResult) -> Tensor:
        answer_ids = answers[0][:ANSWER_KL_TOKENS]
        return logits_along(decoder, result.buffer, result.logits, len(context.ids), answer_ids)

    expected = answer_logits(results[FULL])
    reusing = {variant.key for variant in variants if variant.strategy.reuses_kv}
    outcomes: dict[str, dict[str, Any]] = {}
    for (key, result), answer in zip(results.items(), answers, strict=True):
        reused_tokens = round(prompt.context_tokens * (1 - result.actual_ratio)) if key in reusing else 0
        outcomes[key] = {
            **asdict(compare_logits(expected, answer_logits(result))),
            "realised_ratio": result.actual_ratio,
            "floor_speedup": results[FULL].flops / result.flops,
            "reused_bytes": decoder.spec.kv_bytes(reused_tokens, decoder.dtype.itemsize),
            "oracle_overlap": _oracle_overlap(context, result),
            **_scores(engine, item, answer),
        }
    return outcomes


def prepare_item(engine: Engine, item: Item, max_tokens: int) -> tuple[PreparedPrompt, int]:
    """Return an item's prompt, and how many of its passages were dropped to fit.

    max_tokens  of the context; passages in the middle are dropped first, as LongBench truncates

    Raises InvalidArgument if no passage fits.
    """
    template = engine.template
    question = template.suffix_ids(item.question) + template.tokenizer.encode(item.opening).ids
    available = min(max_tokens, engine.max_tokens - len(template.prefix_ids) - len(question) - item.max_new_tokens)
    kept = [(text.strip(), template.passage(text)) for text in item.passages]
    tokens = sum(len(passage.ids) for _, passage in kept)
    while tokens > available and kept:
        _, dropped = kept.pop(len(kept) // 2)
        tokens -= len(dropped.ids)
    if not kept:
        more = "Give a larger --context-lengths" if available == max_tokens else "This is the model's whole context"
        raise InvalidArgument(f"No passage of {item.id} fits into {available} tokens. {more}, or shorten the passages.")
    texts, passages = zip(*kept, strict=True)
    prompt = PreparedPrompt(texts, passages, item.question, item.question, question, item.max_new_tokens)
    return prompt, len(item.passages) - len(kept)


def _full_prefill(engine: Engine, context: PromptContext) -> PrefillResult:
    reference = context.reference
    rows = torch.arange(int(context.query_rows[0]))
    operations = engine.cache.decoder.spec.flops_at(torch.arange(len(context.ids)))
    num_chunks = len(context.spans)
    return PrefillResult(reference.buffer, reference.logits, rows, 1.0, operations, (), 0, num_chunks)


def _oracle_overlap(context: PromptContext, result: PrefillResult) -> float | None:
    """Return the Jaccard index of the recomputed tokens with the oracle's selection at the same budget."""
    selection = context.selection_context()
    ratio = len(result.rows) / selection.context_tokens  # lower than requested for methods that filter rows
    return jaccard(result.rows, OracleWindows(ratio).plan(selection).rows) if 0 < ratio < 1 else None


def _scores(engine: Engine, item: Item, answer: list[int]) -> dict[str, Any]:
    text = engine.template.tokenizer.decode([token for token in answer if token not in engine.template.stop_ids])
    names = (item.metric, *EXTRA_METRICS.get(item.metric, ()))
    return {"answer": text, "scores": {name: METRICS[name](text, item.answers) for name in names}}
