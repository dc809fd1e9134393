"""Run items through variants, resumable, and aggregate the outcomes into one row per group, method and ratio.

All variants of a question read the same token ids; the question is always prefilled, and each answer is decoded from
the variant's own KV. Full prefill, chunk KV, auxiliary scores and the oracle's attention are computed once and shared.
"""

import hashlib
import statistics
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.bootstrap import mean_fields, ratio_interval
from bench.data.item import Item
from bench.errors import InvalidArgument
from bench.harness.checkpoints import SampleFile
from bench.harness.engine import first_token, model_config
from bench.metrics import METRICS
from bench.tables import columns_of, progress
from engine.analysis.agreement import ANSWER_KL_TOKENS, compare_logits, jaccard, logits_along
from engine.analysis.variants import Variant, variants_of
from engine.engine import Engine, PrefillResult
from engine.generation.span_scorer import SPAN_SCORER_FILE
from engine.method import list_params, parse_params
from engine.model.loading.load import select_dtype
from engine.model.loading.lora import LORA_WEIGHTS_FILE
from engine.model.sampling import TokenSampler, decode_batch
from engine.prefill.context import PromptContext
from engine.prompt.pack import PreparedPrompt
from engine.request import Request
from engine.scoring.trained_selector import SELECTOR_FILE
from engine.strategies import STRATEGIES, Full, OracleWindows
from engine.trace import Trace
from engine.types import Placement

COLUMNS = columns_of(
    "task method ratio realised_ratio length context_tokens quality rq kl answer_kl top1 answer_top1 "
    "oracle_overlap floor_speedup full_wrong left_out n"
)
# Means over the samples that have the value.
MEANS = (
    "realised_ratio",
    "top1",
    "answer_top1",
    "oracle_overlap",
    "floor_speedup",
    "reused_bytes",
    "ttft_ms",
    "full_ttft_ms",
)
# Settings that are repeated in each row; trained weights as digests.
ROW_SETTINGS = ("model", "reader", "pointer", "selector", "kv_bits", "grounding", "chunk")
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


def requested_variants(arguments: Namespace) -> list[Variant]:
    """Return the variants of the command line, full prefill first."""
    return parse_variants(["full", *(name for name in arguments.methods if name != "full")], arguments.ratios)


def with_variant(request: Request, variant: Variant) -> Request:
    """Return the request with a variant's method, ratio and parameters, as the app would be asked."""
    params = {param.name: getattr(variant.strategy, param.name) for param in list_params(type(variant.strategy))}
    ratio = params.pop("ratio", 0.0)  # without one it is ignored
    return replace(request, method=variant.method.partition(":")[0], recompute_ratio=ratio, options=params)


def open_samples(arguments: Namespace, measure: str, **own: Any) -> SampleFile:
    """Open the samples file next to `--json`, or in the data folder; `own` settings are those of this measure only."""
    target = arguments.json or Path(arguments.data) / "bench" / f"{measure}.json"
    config = model_config(arguments)
    device, dtype, _ = select_dtype(arguments.device, arguments.dtype)  # do not mix samples of two machines
    grounding = arguments.grounding if config.lora_folder else "off"
    settings = {
        "measure": measure,
        "model": arguments.model,
        "auxiliary": arguments.auxiliary_model,
        "device": device.type,
        "dtype": str(dtype),
        "kv_bits": arguments.kv_bits,
        "grounding": grounding,
        "seed": arguments.seed,
        "chunk": arguments.chunk,
        "reader": _digest(config.lora_folder, LORA_WEIGHTS_FILE),
        "selector": _digest(config.token_selector_folder, SELECTOR_FILE),
        "pointer": "off" if grounding == "off" else _digest(config.span_scorer_folder, SPAN_SCORER_FILE),
    }
    for name in ("attention", "decode_weights"):
        if getattr(arguments, name) != "auto":  # not mixed with samples of the kernels, or of what fits into memory
            settings[name] = getattr(arguments, name)
    return SampleFile(target.with_suffix(".samples.jsonl"), settings | own)


def _digest(folder: Path | None, file: str) -> str:
    """Return a digest of trained weights, or 'off'; a missing file is reported when it is loaded."""
    path = folder / file if folder else None
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path and path.is_file() else "off"


def run_items(
    engine: Engine, items: Sequence[Item], length: int, variants: Sequence[Variant], finished: SampleFile, title: str
) -> list[dict[str, Any]]:
    """Run the items of one group, cut to `length` context tokens, through the variants; return the group's rows."""
    samples = run_samples(engine, items, length, variants, finished, title)
    return rows_of(items[0].group, length, variants, finished, samples)


def run_samples(
    engine: Engine,
    items: Sequence[Item],
    length: int,
    variants: Sequence[Variant],
    finished: SampleFile,
    title: str,
    timed: bool = False,
) -> list[dict[str, Any]]:
    """Run items, cut to `length` context tokens, through the variants; return their finished samples.

    If `timed`, each variant's time to first token is measured, so the variants share nothing but chunk KV.
    """
    samples = []
    for item in progress(items, title):
        name = f"{item.name}/{length}"
        if missing := finished.missing(name, [variant.key for variant in variants]):
            prompt, num_dropped = prepare_item(engine, item, length)
            about = {
                "group": item.group,
                "metric": item.metric,
                "context_tokens": prompt.context_tokens,
                "passages": len(prompt.passages),
                "left_out": num_dropped,
                "max_new_tokens": item.max_new_tokens,
                "answers": list(item.answers),
            }
            left = [variant for variant in variants if variant.key in missing]
            finished.add(name, about, run_variants(engine, item, prompt, left, timed))
        samples.append(finished.get(name))
    return samples


def rows_of(
    task: str, length: int, variants: Sequence[Variant], finished: SampleFile, samples: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the rows of a task's samples."""
    shared = {"task": task, "length": length} | {name: finished.settings[name] for name in ROW_SETTINGS}
    return [shared | row for row in _rows(samples, variants)]


def _rows(samples: Sequence[dict[str, Any]], variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """Return a row per variant: means over the samples, and 95 % bootstrap intervals.

    `answer_kl_gap` and `quality_gap` are paired differences to the first method named, at the same ratio if it has one.
    """
    abouts = [sample["about"] for sample in samples]
    metrics = sorted({about["metric"] for about in abouts})  # several if the samples are of several tasks
    full = _values(samples, FULL, "quality")
    bases = {variant.ratio: variant for variant in variants[1:] if variant.method == variants[1].method}
    rows = []
    for variant in variants:
        outcomes = [sample["arms"][variant.key] for sample in samples]
        quality = _values(samples, variant.key, "quality")
        row: dict[str, Any] = {
            "method": variant.method,
            "ratio": variant.ratio,
            "metric": " ".join(metrics),
            **{name: _mean([outcome.get(name) for outcome in outcomes]) for name in MEANS},
            **{
                name: _mean([outcome["scores"][name] for outcome in outcomes])
                for name in (outcomes[0]["scores"] if len(metrics) == 1 else ())
            },
            **mean_fields("quality", quality),
            **mean_fields("kl", _values(samples, variant.key, "kl")),
            **mean_fields("answer_kl", _values(samples, variant.key, "answer_kl")),
            "full_quality": statistics.fmean(full),
            "full_wrong": statistics.fmean(score < 0.5 for score in full),
            "context_tokens": statistics.median(about["context_tokens"] for about in abouts),
            "max_new_tokens": abouts[0].get("max_new_tokens"),  # missing in older samples
            "left_out": sum(about["left_out"] > 0 for about in abouts),
            "n": len(samples),
        }
        if bases:
            base = bases.get(variant.ratio) or next(iter(bases.values()))
            for name in ("answer_kl", "quality"):
                pairs = zip(_values(samples, variant.key, name), _values(samples, base.key, name), strict=True)
                row |= mean_fields(f"{name}_gap", [value - of_base for value, of_base in pairs])
        if sum(full):
            row["rq"] = sum(quality) / sum(full)
            row["rq_low"], row["rq_high"] = ratio_interval(quality, full)
        if row["ttft_ms"]:
            times = [(outcome["full_ttft_ms"], outcome["ttft_ms"]) for outcome in outcomes]
            row["speedup"] = row["full_ttft_ms"] / row["ttft_ms"]
            row["speedup_low"], row["speedup_high"] = ratio_interval(*zip(*times, strict=True))
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def _values(samples: Sequence[dict[str, Any]], variant: str, name: str) -> list[float]:
    """Return a variant's `name` for each sample; 'quality' is the score by the sample's own metric."""
    outcomes = [(sample["arms"][variant], sample["about"]["metric"]) for sample in samples]
    return [outcome["scores"][metric] if name == "quality" else outcome[name] for outcome, metric in outcomes]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def run_variants(
    engine: Engine, item: Item, prompt: PreparedPrompt, variants: Sequence[Variant], timed: bool = False
) -> dict[str, dict[str, Any]]:
    """Return the outcome of each variant by its key, including full prefill's."""
    decoder = engine.cache.decoder
    others = [variant for variant in variants if variant.key != FULL]
    context = engine.prompt_context(prompt, Trace())
    times: dict[str, float] = {}
    if timed:
        for text in prompt.texts:
            engine.passages.warm(text)
        first = {FULL: first_token(engine, prompt, Full(), Trace())}
        first |= {variant.key: first_token(engine, prompt, variant.strategy, Trace()) for variant in others}
        results = {key: result for key, (result, _) in first.items()}
        times = {key: ttft_ms for key, (_, ttft_ms) in first.items()}
    else:
        context.chunk_set(Placement.CONCATENATED)  # load now: exact paths must not depend on earlier variants
        results = {FULL: _full_prefill(engine, context)}
        results |= {each.key: engine.prefill(prompt, each.strategy, Trace(), context=context) for each in others}
    samplers = [engine.sampler(prompt, Trace(), TokenSampler()) for _ in results]
    answers = decode_batch(
        decoder,
        [result.buffer for result in results.values()],
        [sampler.sample(result.logits) for sampler, result in zip(samplers, results.values(), strict=True)],
        samplers,
        engine.template.stop_ids,
        item.max_new_tokens,
    )

    def answer_logits(result: PrefillResult) -> Tensor:
        return logits_along(decoder, result.buffer, result.logits, len(context.ids), answers[0][:ANSWER_KL_TOKENS])

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
            "oracle_overlap": None if timed else _oracle_overlap(context, result),  # needs another full prefill
            **({"ttft_ms": times[key], "full_ttft_ms": times[FULL]} if timed else {}),
            **_scores(engine, item, answer),
        }
    return outcomes


def prepare_item(engine: Engine, item: Item, max_tokens: int) -> tuple[PreparedPrompt, int]:
    """Return an item's prompt, and how many of its passages were dropped to fit into `max_tokens` of context.

    Passages in the middle are dropped first, as LongBench truncates. Raises InvalidArgument if no passage fits.
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
    return PrefillResult(reference.buffer, reference.logits, rows, 1.0, operations, (), 0, len(context.spans))


def _oracle_overlap(context: PromptContext, result: PrefillResult) -> float | None:
    """Return the Jaccard index of the recomputed tokens with the oracle's selection at the same budget."""
    selection = context.selection_context()
    ratio = len(result.rows) / selection.context_tokens  # lower than requested for methods that filter rows
    return jaccard(result.rows, OracleWindows(ratio).plan(selection).rows) if 0 < ratio < 1 else None


def _scores(engine: Engine, item: Item, answer: list[int]) -> dict[str, Any]:
    text = engine.template.tokenizer.decode([token for token in answer if token not in engine.template.stop_ids])
    names = (item.metric, *EXTRA_METRICS.get(item.metric, ()))
    return {"answer": text, "scores": {name: METRICS[name](text, item.answers) for name in names}}
