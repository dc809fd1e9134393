"""Run items through variants, resumable, and aggregate the outcomes into one row per group, method and ratio."""

import hashlib
import statistics
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.bootstrap import mean_fields, ratio_interval
from bench.data.item import Item
from bench.harness.checkpoints import SampleFile
from bench.harness.engine import model_config
from bench.harness.paired import FULL, parse_variants, prepare_item, run_variants
from bench.tables import columns_of, progress
from engine.analysis.variants import Variant
from engine.engine import Engine
from engine.generation.span_scorer import SPAN_SCORER_FILE
from engine.model.loading.dtype import select_dtype
from engine.model.loading.lora import LORA_WEIGHTS_FILE
from engine.scoring.trained_selector import SELECTOR_FILE

COLUMNS = columns_of(
    "task method ratio realised_ratio length context_tokens quality rq kl answer_kl top1 answer_top1 "
    "oracle_overlap floor_speedup full_wrong left_out n"
)
# Means over the samples that have the value.
MEANS = ("realised_ratio", "top1", "answer_top1", "oracle_overlap", "floor_speedup", "reused_bytes")
# Settings that are repeated in each row; trained weights as digests.
ROW_SETTINGS = ("model", "reader", "pointer", "selector", "kv_bits", "grounding", "chunk")


def requested_variants(arguments: Namespace) -> list[Variant]:
    """Return the variants of the command line, full prefill first."""
    return parse_variants(["full", *(name for name in arguments.methods if name != "full")], arguments.ratios)


def open_samples(arguments: Namespace, measure: str, **own: Any) -> SampleFile:
    """Open the samples file next to `--json`, or in the data folder if `--json` is not given.

    own  settings of this measure, in addition to the shared ones
    """
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
    return SampleFile(target.with_suffix(".samples.jsonl"), settings | own)


def _digest(folder: Path | None, file: str) -> str:
    """Return a digest of trained weights, or 'off'; a missing file is reported when it is loaded."""
    path = folder / file if folder else None
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path and path.is_file() else "off"


def run_items(
    engine: Engine, items: Sequence[Item], length: int, variants: Sequence[Variant], finished: SampleFile, title: str
) -> list[dict[str, Any]]:
    """Run the items of one group through the variants without an outcome yet; return the rows of the group.

    length  maximum context tokens of an item
    """
    samples = []
    for item in progress(items, title):
        name = f"{item.name}/{length}"
        missing = finished.missing(name, [variant.key for variant in variants])
        if missing:
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
            finished.add(name, about, run_variants(engine, item, prompt, left))
        samples.append(finished.get(name))
    shared = {"task": items[0].group, "length": length} | {name: finished.settings[name] for name in ROW_SETTINGS}
    return [shared | row for row in _rows(samples, variants)]


def _rows(samples: Sequence[dict[str, Any]], variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """Return a row per variant: means over the samples, and 95 % bootstrap intervals.

    `answer_kl_gap` and `quality_gap` are paired differences to the first method named, at the same ratio if it has one.
    """
    abouts = [sample["about"] for sample in samples]
    full = _values(samples, FULL, "quality")
    bases = {variant.ratio: variant for variant in variants[1:] if variant.method == variants[1].method}
    rows = []
    for variant in variants:
        outcomes = [sample["arms"][variant.key] for sample in samples]
        quality = _values(samples, variant.key, "quality")
        row: dict[str, Any] = {
            "method": variant.method,
            "ratio": variant.ratio,
            "metric": abouts[0]["metric"],
            **{name: _mean([outcome.get(name) for outcome in outcomes]) for name in MEANS},
            **{name: _mean([outcome["scores"][name] for outcome in outcomes]) for name in outcomes[0]["scores"]},
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
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def _values(samples: Sequence[dict[str, Any]], variant: str, name: str) -> list[float]:
    """Return a variant's `name` for each sample; 'quality' is the score by the sample's own metric."""
    outcomes = [(sample["arms"][variant], sample["about"]["metric"]) for sample in samples]
    return [outcome["scores"][metric] if name == "quality" else outcome[name] for outcome, metric in outcomes]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
