"""Run items through variants, resumable, and aggregate the outcomes into one row per group, method and ratio."""

import hashlib
import statistics
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.bootstrap import mean_interval, ratio_interval
from bench.data.item import Item
from bench.harness.checkpoints import SampleFile
from bench.harness.engine import model_config
from bench.harness.paired import FULL, prepare_item, run_variants
from bench.harness.variants import Variant, parse_variants
from bench.tables import progress
from engine.engine import Engine
from engine.generation.span_scorer import SPAN_SCORER_FILE
from engine.model.loading.load import LORA_WEIGHTS_FILE, select_dtype
from engine.scoring.trained_selector import SELECTOR_FILE

COLUMNS = {
    "task": "task",
    "method": "method",
    "ratio": "ratio",
    "realised_ratio": "actual ratio",
    "length": "length",
    "context_tokens": "tokens",
    "quality": "quality",
    "rq": "RQ",
    "kl": "KL",
    "answer_kl": "answer KL",
    "top1": "top-1",
    "answer_top1": "answer top-1",
    "oracle_overlap": "oracle overlap",
    "floor_speedup": "ideal speedup",
    "full_wrong": "full wrong",
    "left_out": "truncated",
    "n": "n",
}
# Settings that all samples of a file share (in addition to trained weights): key in the file -> argument.
SHARED_SETTINGS = {
    **{name: name for name in ("model", "dtype", "device", "kv_bits", "grounding", "seed", "chunk")},
    "auxiliary": "auxiliary_model",
}
# Settings that are repeated in each row; trained weights as digests.
ROW_SETTINGS = ("model", "reader", "pointer", "selector", "kv_bits", "grounding", "chunk")


def requested_variants(arguments: Namespace) -> list[Variant]:
    """Return the variants of the command line, full prefill first."""
    return parse_variants(["full", *(name for name in arguments.methods if name != "full")], arguments.ratios)


def open_samples(arguments: Namespace, measure: str, **settings: Any) -> SampleFile:
    """Open the samples file next to `--json`, or in the data folder if `--json` is not given."""
    target = arguments.json or Path(arguments.data) / "bench" / f"{measure}.json"
    shared = {key: getattr(arguments, name) for key, name in SHARED_SETTINGS.items()}
    device, dtype, _ = select_dtype(arguments.device, arguments.dtype)  # do not mix samples of two machines
    shared |= {"device": device.type, "dtype": str(dtype)}
    config = model_config(arguments)
    shared |= {
        "reader": _digest(config.lora_folder, LORA_WEIGHTS_FILE),
        "selector": _digest(config.token_selector_folder, SELECTOR_FILE),
    }
    shared["grounding"] = "off" if config.lora_folder is None else arguments.grounding
    shared["pointer"] = "off" if shared["grounding"] == "off" else _digest(config.span_scorer_folder, SPAN_SCORER_FILE)
    return SampleFile(target.with_suffix(".samples.jsonl"), {"measure": measure, **shared, **settings})


def _digest(folder: Path | None, file: str) -> str:
    """Return a digest of trained weights, or 'off'; a missing file is reported when it is loaded."""
    path = folder / file if folder else None
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path and path.is_file() else "off"


def run_items(
    engine: Engine,
    items: Sequence[tuple[Item, int]],
    variants: Sequence[Variant],
    finished: SampleFile,
    description: str,
) -> list[str]:
    """Run each (item, max context tokens) through the variants without an outcome; return the sample names."""
    names = []
    for item, max_tokens in progress(items, description):
        name = f"{item.name}/{max_tokens}"
        names.append(name)
        missing = finished.missing(name, [variant.key for variant in variants])
        if not missing:
            continue
        prompt, dropped = prepare_item(engine, item, max_tokens)
        about = {
            "group": item.group,
            "metric": item.metric,
            "context_tokens": prompt.context_tokens,
            "passages": len(prompt.passages),
            "left_out": dropped,
            "max_new_tokens": item.max_new_tokens,
            "answers": list(item.answers),
        }
        finished.add(
            name, about, run_variants(engine, item, prompt, [variant for variant in variants if variant.key in missing])
        )
    return names


def make_rows(
    samples: Sequence[dict[str, Any]], variants: Sequence[Variant], task: str, length: int, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the JSON rows of one group of samples: means, and 95 % bootstrap intervals.

    `answer_kl_gap` and `quality_gap` are paired differences to the first method named, at the same ratio if it has one.
    """
    metric = samples[0]["about"]["metric"]
    full = _values(samples, FULL, "quality")
    firsts = [variant for variant in variants if len(variants) > 1 and variant.method == variants[1].method]
    rows = []
    for variant in variants:
        outcomes = [sample["arms"][variant.key] for sample in samples]
        quality = _values(samples, variant.key, "quality")
        row: dict[str, Any] = {
            "task": task,
            "method": variant.method,
            "ratio": variant.ratio,
            "realised_ratio": _mean(outcomes, "realised_ratio"),
            "length": length,
            "metric": metric,
            "quality": statistics.fmean(quality),
            "full_quality": statistics.fmean(full),
            "full_wrong": statistics.fmean(score < 0.5 for score in full),
            "kl": _mean(outcomes, "kl"),
            "top1": _mean(outcomes, "top1"),
            "answer_kl": _mean(outcomes, "answer_kl"),
            "answer_top1": _mean(outcomes, "answer_top1"),
            "oracle_overlap": _mean(outcomes, "oracle_overlap"),
            "floor_speedup": _mean(outcomes, "floor_speedup"),
            "reused_bytes": _mean(outcomes, "reused_bytes"),
            "context_tokens": statistics.median(sample["about"]["context_tokens"] for sample in samples),
            "max_new_tokens": samples[0]["about"].get("max_new_tokens"),  # missing in older samples
            "left_out": sum(sample["about"]["left_out"] > 0 for sample in samples),
            "n": len(samples),
            **{name: settings[name] for name in ROW_SETTINGS},
            **{name: statistics.fmean(o["scores"][name] for o in outcomes) for name in outcomes[0]["scores"]},
        }
        row["quality_low"], row["quality_high"] = mean_interval(quality)
        for name in ("kl", "answer_kl"):
            row[f"{name}_low"], row[f"{name}_high"] = mean_interval(_values(samples, variant.key, name))
        if firsts:
            base = next((first for first in firsts if first.ratio == variant.ratio), firsts[0])
            for name in ("answer_kl", "quality"):
                pairs = zip(_values(samples, variant.key, name), _values(samples, base.key, name), strict=True)
                gaps = [value - of_base for value, of_base in pairs]
                row[f"{name}_gap"] = statistics.fmean(gaps)
                row[f"{name}_gap_low"], row[f"{name}_gap_high"] = mean_interval(gaps)
        if sum(full):
            row["rq"] = sum(quality) / sum(full)
            row["rq_low"], row["rq_high"] = ratio_interval(quality, full)
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def group_samples(
    names: Sequence[str], finished: SampleFile, key: Callable[[str], Any]
) -> dict[Any, list[dict[str, Any]]]:
    """Group the samples by `key(name)`, in the order of the names."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for name in names:
        groups.setdefault(key(name), []).append(finished.get(name))
    return groups


def _values(samples: Sequence[dict[str, Any]], variant: str, name: str) -> list[float]:
    """Return a variant's `name` for each sample; 'quality' is the score by the sample's own metric."""
    outcomes = [(sample["arms"][variant], sample["about"]["metric"]) for sample in samples]
    return [outcome["scores"][metric] if name == "quality" else outcome[name] for outcome, metric in outcomes]


def _mean(outcomes: Sequence[dict[str, Any]], name: str) -> float | None:
    known = [outcome[name] for outcome in outcomes if outcome.get(name) is not None]
    return statistics.fmean(known) if known else None
