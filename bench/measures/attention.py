"""What the models look at, over a data set: KL and Jaccard of the auxiliary and of each primary layer with the last.

Tests the paper's key observation, that the auxiliary's last layer is nearer to the primary's last layer than the
primary's first layers are (arXiv:2510.10129). Sinks are left out: the shared prefix, and those of each passage.
"""

import statistics
from argparse import Namespace
from typing import Any

from bench.bootstrap import mean_interval
from bench.data.item import Item
from bench.errors import InvalidArgument
from bench.harness.paired import prepare_item
from bench.harness.runner import open_samples, requested_variants
from bench.harness.variants import Variant
from bench.measures.quality import add_arguments, open_engine_and_items
from bench.tables import progress
from engine.analysis.inspection_runner import attention_profile
from engine.engine import Engine
from engine.trace import Trace

TITLE = "what the auxiliary and each primary layer look at, against the primary's last layer"
COLUMNS = {
    "task": "task",
    "what": "what",
    "ratio": "ratio",
    "kl": "KL",
    "kl_low": "low",
    "kl_high": "high",
    "jaccard": "Jaccard",
    "jaccard_low": "low",
    "jaccard_high": "high",
    "n": "n",
}
__all__ = ["COLUMNS", "TITLE", "add_arguments", "run"]


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per file, ratio, and model layer or method."""
    chosen = [arm for arm in requested_variants(arguments) if arm.method != "full"]
    if len(arguments.lengths) > 1:
        raise InvalidArgument("inspect takes one --lengths: the most context tokens of a question.")
    (most,) = arguments.lengths
    engine, files = open_engine_and_items(arguments)
    finished = open_samples(arguments, "inspect", passages=arguments.passages, length=most, methods=arguments.methods)
    rows = []
    ratios = {f"{ratio:g}": ratio for ratio in arguments.ratios}
    for items in files:
        names = []
        for item in progress(items, items[0].group):
            names.append(item.name)
            if missing := finished.missing(names[-1], list(ratios)):
                finished.add(names[-1], {}, _look(engine, item, chosen, {key: ratios[key] for key in missing}, most))
        samples = [finished.get(name)["arms"] for name in names]
        for key, ratio in ratios.items():
            rows += _rows(items[0].group, ratio, [sample[key] for sample in samples])
    return rows


def _look(
    engine: Engine, item: Item, chosen: list[Variant], ratios: dict[str, float], most: int
) -> dict[str, dict[str, Any]]:
    evidence = engine.prompt_context(prepare_item(engine, item, most)[0], Trace())
    found = {}
    for key, ratio in ratios.items():
        methods = {arm.method: arm.strategy for arm in chosen if arm.ratio in (None, ratio)}
        seen = attention_profile(evidence, ratio, methods)
        distances = {"auxiliary": (seen.kl_auxiliary, seen.jaccard_auxiliary)}
        layers = zip(seen.kl_layers.tolist(), seen.jaccard_layers.tolist(), strict=True)
        distances |= {f"layer {number}": pair for number, pair in enumerate(layers)}
        found[key] = {"distances": distances, "overlap": seen.oracle_overlap}
    return found


def _rows(task: str, ratio: float, samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for what in samples[0]["distances"]:
        kls, jaccards = zip(*(sample["distances"][what] for sample in samples), strict=True)
        rows.append({"task": task, "what": what, "ratio": ratio, "kl": statistics.fmean(kls), "n": len(samples)})
        rows[-1]["kl_low"], rows[-1]["kl_high"] = mean_interval(kls)
        rows[-1] |= _jaccard(jaccards)
    for method in samples[0]["overlap"]:
        overlaps = [sample["overlap"][method] for sample in samples if method in sample["overlap"]]
        rows.append(
            {"task": task, "what": f"plan of {method}", "ratio": ratio, "n": len(overlaps)} | _jaccard(overlaps)
        )
    return rows


def _jaccard(values: Any) -> dict[str, float]:
    low, high = mean_interval(values)
    return {"jaccard": statistics.fmean(values), "jaccard_low": low, "jaccard_high": high}
