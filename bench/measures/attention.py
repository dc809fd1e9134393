"""Attention over a data set: KL and Jaccard of the auxiliary model and of each primary layer with the last layer.

Tests CacheClip's key observation (arXiv:2510.10129): the auxiliary model's last layer is closer to the primary's last
layer than the primary's first layers are. Attention sinks are excluded: the shared prefix and those of each passage.
"""

from argparse import Namespace
from typing import Any

from bench.bootstrap import mean_fields
from bench.data.item import Item
from bench.errors import InvalidArgument
from bench.harness.runner import open_samples, prepare_item, requested_variants
from bench.measures.quality import add_arguments, open_engine_and_items
from bench.tables import columns_of, progress
from engine.analysis.inspection_runner import attention_profile
from engine.analysis.variants import Variant
from engine.engine import Engine
from engine.trace import Trace

TITLE = "attention of the auxiliary model and each primary layer, against the primary's last layer"
COLUMNS = columns_of("task what ratio kl kl_low kl_high jaccard jaccard_low jaccard_high n")
__all__ = ["COLUMNS", "TITLE", "add_arguments", "run"]


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per file, ratio, and model layer or method."""
    variants = [variant for variant in requested_variants(arguments) if variant.method != "full"]
    if len(arguments.lengths) > 1:
        raise InvalidArgument("attention takes one --context-lengths: the maximum context tokens of a question.")
    (length,) = arguments.lengths
    engine, files = open_engine_and_items(arguments)
    own = {"passages": arguments.passages, "length": length, "methods": arguments.methods}
    finished = open_samples(arguments, "inspect", **own)
    rows = []
    ratios = {f"{ratio:g}": ratio for ratio in arguments.ratios}
    for items in files:
        samples = []
        for item in progress(items, items[0].group):
            if missing := finished.missing(item.name, list(ratios)):
                profiles = _profiles(engine, item, variants, {key: ratios[key] for key in missing}, length)
                finished.add(item.name, {}, profiles)
            samples.append(finished.get(item.name)["arms"])
        for key, ratio in ratios.items():
            shared = {"task": items[0].group, "ratio": ratio}
            rows += [shared | row for row in _rows([sample[key] for sample in samples])]
    return rows


def _profiles(
    engine: Engine, item: Item, variants: list[Variant], ratios: dict[str, float], length: int
) -> dict[str, dict[str, Any]]:
    context = engine.prompt_context(prepare_item(engine, item, length)[0], Trace())
    profiles = {}
    for key, ratio in ratios.items():
        methods = {each.method: each.strategy for each in variants if each.ratio in (None, ratio)}
        profile = attention_profile(context, ratio, methods)
        distances = {"auxiliary": (profile.kl_auxiliary, profile.jaccard_auxiliary)}
        layers = zip(profile.kl_layers.tolist(), profile.jaccard_layers.tolist(), strict=True)
        distances |= {f"layer {number}": pair for number, pair in enumerate(layers)}
        profiles[key] = {"distances": distances, "overlap": profile.oracle_overlap}
    return profiles


def _rows(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for what in samples[0]["distances"]:
        kls, jaccards = zip(*(sample["distances"][what] for sample in samples), strict=True)
        rows.append({"what": what, "n": len(samples), **mean_fields("kl", kls), **mean_fields("jaccard", jaccards)})
    for method in samples[0]["overlap"]:
        overlaps = [sample["overlap"][method] for sample in samples if method in sample["overlap"]]
        rows.append({"what": f"plan of {method}", "n": len(overlaps), **mean_fields("jaccard", overlaps)})
    return rows
