"""Many questions through all arms, resumable; then one row for each group, method and ratio."""

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
from engine.model.loading.dtype import select_dtype
from engine.model.loading.lora import LORA_WEIGHTS_FILE
from engine.scoring.trained_selector import FILE

COLUMNS = {
    "task": "task",
    "method": "method",
    "ratio": "ratio",
    "realised_ratio": "realised",
    "length": "length",
    "context_tokens": "tokens",
    "quality": "quality",
    "rq": "RQ",
    "kl": "KL",
    "answer_kl": "KL along",
    "top1": "top-1",
    "answer_top1": "top-1 along",
    "oracle_overlap": "oracle",
    "floor_speedup": "floor",
    "full_wrong": "full wrong",
    "left_out": "cut short",
    "n": "n",
}
# What all samples of a file share, beside trained weights.
SHARED_SETTINGS = ("model", "auxiliary", "dtype", "device", "kv_bits", "grounding", "seed", "chunk")
# Of these, what stands in rows; trained weights as digests.
ROW_SETTINGS = ("model", "reader", "pointer", "selector", "kv_bits", "grounding", "chunk")


def requested_variants(arguments: Namespace) -> list[Variant]:
    """Return the arms of the command line, full prefill first."""
    return parse_variants(["full", *(name for name in arguments.methods if name != "full")], arguments.ratios)


def open_samples(arguments: Namespace, measure: str, **made: Any) -> SampleFile:
    """Open the finished samples beside `--json`, or in the data folder where no such path is given."""
    target = arguments.json or Path(arguments.data) / "bench" / f"{measure}.json"
    settings = {name: getattr(arguments, name) for name in SHARED_SETTINGS}
    device, dtype, _ = select_dtype(arguments.device, arguments.dtype)  # samples of two machines must not mix
    settings |= {"device": device.type, "dtype": str(dtype)}
    trained = model_config(arguments)
    settings |= {
        "reader": _named(trained.lora_folder, LORA_WEIGHTS_FILE),
        "selector": _named(trained.token_selector_folder, FILE),
    }
    settings["grounding"] = "off" if trained.lora_folder is None else arguments.grounding
    settings["pointer"] = (
        "off" if settings["grounding"] == "off" else _named(trained.span_scorer_folder, SPAN_SCORER_FILE)
    )
    return SampleFile(target.with_suffix(".samples.jsonl"), {"measure": measure, **settings, **made})


def _named(folder: Path | None, file: str) -> str:
    """Return what tells trained weights from others; a file that is missing is told of when it is loaded."""
    path = folder / file if folder else None
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path and path.is_file() else "off"


def run_items(
    engine: Engine, items: Sequence[tuple[Item, int]], chosen: Sequence[Variant], finished: SampleFile, said: str
) -> list[str]:
    """Send each (item, most context tokens) through the arms it has not been through; return the samples' names."""
    names = []
    for item, most in progress(items, said):
        name = f"{item.name}/{most}"
        names.append(name)
        missing = finished.missing(name, [arm.key for arm in chosen])
        if not missing:
            continue
        reading, left_out = prepare_item(engine, item, most)
        about = {
            "group": item.group,
            "metric": item.metric,
            "context_tokens": reading.context_tokens,
            "passages": len(reading.passages),
            "left_out": left_out,
            "max_new_tokens": item.max_new_tokens,
            "answers": list(item.answers),
        }
        finished.add(name, about, run_variants(engine, item, reading, [arm for arm in chosen if arm.key in missing]))
    return names


def make_rows(
    samples: Sequence[dict[str, Any]], chosen: Sequence[Variant], task: str, length: int, made: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the JSON rows of one group of samples: means, and 95 % bootstrap intervals of paired questions.

    made  what the samples were made with

    `answer_kl_gap` and `quality_gap` are what an arm has less what the first method named has, question by question,
    at the same ratio where that has it.
    """
    metric = samples[0]["about"]["metric"]
    full = _values(samples, FULL, "quality")
    firsts = [arm for arm in chosen if len(chosen) > 1 and arm.method == chosen[1].method]
    rows = []
    for arm in chosen:
        outcomes = [sample["arms"][arm.key] for sample in samples]
        quality = _values(samples, arm.key, "quality")
        row: dict[str, Any] = {
            "task": task,
            "method": arm.method,
            "ratio": arm.ratio,
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
            "max_new_tokens": samples[0]["about"].get("max_new_tokens"),  # older samples do not say
            "left_out": sum(sample["about"]["left_out"] > 0 for sample in samples),
            "n": len(samples),
            **{name: made[name] for name in ROW_SETTINGS},
            **{name: statistics.fmean(o["scores"][name] for o in outcomes) for name in outcomes[0]["scores"]},
        }
        row["quality_low"], row["quality_high"] = mean_interval(quality)
        for name in ("kl", "answer_kl"):
            row[f"{name}_low"], row[f"{name}_high"] = mean_interval(_values(samples, arm.key, name))
        if firsts:
            base = next((first for first in firsts if first.ratio == arm.ratio), firsts[0])
            for name in ("answer_kl", "quality"):
                pairs = zip(_values(samples, arm.key, name), _values(samples, base.key, name), strict=True)
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
    """Return the samples by what `key` makes of their names, in the order of the names."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for name in names:
        groups.setdefault(key(name), []).append(finished.get(name))
    return groups


def _values(samples: Sequence[dict[str, Any]], arm: str, name: str) -> list[float]:
    """Return what an arm has of `name` at each sample; its quality is its score by the sample's own metric."""
    outcomes = [(sample["arms"][arm], sample["about"]["metric"]) for sample in samples]
    return [outcome["scores"][metric] if name == "quality" else outcome[name] for outcome, metric in outcomes]


def _mean(outcomes: Sequence[dict[str, Any]], name: str) -> float | None:
    known = [outcome[name] for outcome in outcomes if outcome.get(name) is not None]
    return statistics.fmean(known) if known else None
