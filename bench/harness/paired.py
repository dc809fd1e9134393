"""One question through every arm: same ids, the question always prefilled, each arm decoding from its own cache.

Full prefill, chunk KV, auxiliary scores and the oracle's attention are computed once and shared by all arms.
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
from engine.model.sampling import SamplingParams, decode_batch
from engine.prefill.context import PromptContext
from engine.prompt.pack import PreparedPrompt
from engine.strategies import OracleWindows
from engine.trace import Trace
from engine.types import Placement

FULL = "full@1"
EXTRA_METRICS = {  # beside the headline metric
    "f1": ("exact", "rouge_l", "contains"),
    "f1_zh": ("exact_zh", "f1", "rouge_zh", "contains"),
}


def run_variants(
    engine: Engine, item: Item, reading: PreparedPrompt, arms: Sequence[Variant]
) -> dict[str, dict[str, Any]]:
    """Return the outcome of each arm by its key, full prefill's among them."""
    evidence = engine.prompt_context(reading, Trace())
    evidence.chunks(Placement.CONCATENATED)  # what an exact path holds must not depend on the arms before it
    reference = evidence.reference
    everything = torch.arange(int(evidence.query_rows[0]))
    operations = engine.cache.decoder.spec.flops_at(torch.arange(len(evidence.ids)))
    ready = {
        FULL: PrefillResult(
            reference.buffer,
            reference.logits,
            everything,
            1.0,
            operations,
            (),
            num_path_chunks=0,
            num_exact_chunks=len(evidence.spans),
        )
    }
    for arm in arms:
        if arm.key != FULL:
            ready[arm.key] = engine.prefill(reading, arm.strategy, Trace(), context=evidence)
    choosers = [engine.sampler(reading, Trace(), SamplingParams()) for _ in ready]
    answers = decode_batch(
        engine.cache.decoder,
        [each.buffer for each in ready.values()],
        [chooser.sample(each.logits) for chooser, each in zip(choosers, ready.values(), strict=True)],
        choosers,
        engine.prompt.stop_ids,
        item.max_new_tokens,
    )
    said = answers[0][:ANSWER_KL_TOKENS]
    reusing = {arm.key for arm in arms if arm.strategy.reuses_kv}
    outcomes: dict[str, dict[str, Any]] = {}
    expected = _along(engine, ready[FULL], evidence, said)
    for (key, each), answer in zip(ready.items(), answers, strict=True):
        outcomes[key] = {
            **asdict(compare_logits(expected, _along(engine, each, evidence, said))),
            "realised_ratio": each.actual_ratio,
            "floor_speedup": operations / each.flops,
            "reused_bytes": _bytes(engine, reading, each) if key in reusing else 0,
            "oracle_overlap": _overlap(evidence, each),
            **_scores(engine, item, answer),
        }
    return outcomes


def prepare_item(engine: Engine, item: Item, most: int) -> tuple[PreparedPrompt, int]:
    """Return an item as the model reads it, and how many of its passages were left out to fit.

    most  context tokens; passages in the middle go first, as LongBench cuts its contexts

    Raises BadArgument if not one passage fits.
    """
    prompt = engine.prompt
    question = prompt.suffix_ids(item.question) + prompt.tokenizer.encode(item.opening).ids
    room = min(most, engine.max_tokens - len(prompt.prefix_ids) - len(question) - item.max_new_tokens)
    kept = [(text, prompt.passage(text)) for text in item.passages]
    tokens, out = sum(len(passage.ids) for _, passage in kept), 0
    while tokens > room and kept:
        _, passage = kept.pop(len(kept) // 2)
        tokens, out = tokens - len(passage.ids), out + 1
    if not kept:
        more = "Give a larger --lengths" if room == most else "The model reads no more: leave it out"
        raise InvalidArgument(
            f"Not one passage of {item.id} fits into {room} tokens. {more}, or give shorter passages."
        )
    texts, passages = tuple(text.strip() for text, _ in kept), tuple(passage for _, passage in kept)
    return PreparedPrompt(texts, passages, item.question, item.question, question, item.max_new_tokens), out


def _along(engine: Engine, ready: PrefillResult, evidence: PromptContext, said: list[int]) -> Tensor:
    return logits_along(engine.cache.decoder, ready.buffer, ready.logits, len(evidence.ids), said)


def _bytes(engine: Engine, reading: PreparedPrompt, ready: PrefillResult) -> int:
    """KV of passages' tokens that was not computed again."""
    decoder = engine.cache.decoder
    return decoder.spec.kv_bytes(round(reading.context_tokens * (1 - ready.actual_ratio)), decoder.dtype.itemsize)


def _overlap(evidence: PromptContext, ready: PrefillResult) -> float | None:
    """How much of what was recomputed the oracle would have chosen with the same budget (Jaccard)."""
    view = evidence.selection_context()
    budget = len(ready.rows) / view.context_tokens  # a method that drops rows on its way spends less in the mean
    return jaccard(ready.rows, OracleWindows(budget).plan(view).rows) if 0 < budget < 1 else None


def _scores(engine: Engine, item: Item, answer: list[int]) -> dict[str, Any]:
    said = engine.prompt.tokenizer.decode([t for t in answer if t not in engine.prompt.stop_ids])
    names = (item.metric, *EXTRA_METRICS.get(item.metric, ()))
    return {"answer": said, "scores": {name: METRICS[name](said, item.answers) for name in names}}
