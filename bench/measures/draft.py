"""Draft first: how soon a draft is there, how often verification leaves it unchanged, and what it costs.

FILES and --task as for `quality`, `--passages 48` gives about 8K tokens. Each question is answered as in the app, once
with and once without a draft, in alternating order. Chunk KV is in memory, and drafts are written for any predicted
time. `total_ms` ends with the whole verified answer; `total_ratio` is the median of the paired ratios.
"""

import statistics
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bench.bootstrap import median_interval, medians
from bench.data.item import Item
from bench.harness.runner import parse_variants, with_variant
from bench.measures import quality
from bench.tables import columns_of, progress
from engine.analysis.variants import Variant
from engine.engine import Engine
from engine.prompt.text_finder import TextFinder
from engine.prompt.validate import MAX_PASSAGES
from engine.request import Answer, Request

TITLE = "draft first, paired with answers without a draft"
COLUMNS = columns_of(
    "task method ratio context_tokens draft_ms ttft_ms plain_ttft_ms total_ms plain_total_ms total_ratio "
    "unchanged identical n"
)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of this measure."""
    quality.add_arguments(parser)
    parser.set_defaults(methods=["full"], samples=20)


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per file, method and ratio; medians over the questions that had a draft."""
    variants = parse_variants(arguments.methods, arguments.ratios)
    engine, files = quality.open_engine_and_items(arguments)
    engine.min_draft_wait_ms = 0.0
    engine.cache.insert_path = lambda *_: None  # type: ignore[method-assign]  # the second run must find the same cache
    rows = []
    for items in files:
        samples: dict[Variant, list[dict[str, float]]] = {variant: [] for variant in variants}
        for number, item in enumerate(progress(items, items[0].group)):
            request = _open(engine, item)
            for variant in variants:
                samples[variant].append(_compare(engine, variant, request, draft_first=number % 2 == 0))
        rows += [_row(items[0].group, variant, samples[variant]) for variant in variants]
    return rows


def _open(engine: Engine, item: Item) -> Request:
    """Make the item's passages the engine's library, with their KV in memory; return the request for its question."""
    texts = item.passages[:MAX_PASSAGES]
    engine.finder = TextFinder(texts)
    for text in texts:
        engine.passages.warm(text)
    request = Request(item.question, "direct", passages=len(texts), max_new_tokens=item.max_new_tokens)
    _ask(engine, request)  # warm-up
    return request


def _compare(engine: Engine, variant: Variant, request: Request, draft_first: bool) -> dict[str, float]:
    own = with_variant(request, variant)
    results = {draft: _ask(engine, replace(own, draft=draft)) for draft in (draft_first, not draft_first)}
    (answer, total_ms), (plain, plain_total_ms) = results[True], results[False]
    assert answer.trace.ttft_ms is not None and plain.trace.ttft_ms is not None
    return {
        "context_tokens": answer.context_tokens,
        "draft_ms": -1.0 if answer.draft is None else answer.draft.trace.ttft_ms or -1.0,
        "ttft_ms": answer.trace.ttft_ms,
        "plain_ttft_ms": plain.trace.ttft_ms,
        "total_ms": total_ms,
        "plain_total_ms": plain_total_ms,
        "total_ratio": total_ms / plain_total_ms,
        "unchanged": answer.draft_status == "unchanged",
        "identical": answer.text == plain.text,
    }


def _ask(engine: Engine, request: Request) -> tuple[Answer, float]:
    start = time.perf_counter()
    *_, answer = engine.ask(request)
    return answer, 1e3 * (time.perf_counter() - start)


def _row(task: str, variant: Variant, samples: Sequence[dict[str, float]]) -> dict[str, Any]:
    drafted = [sample for sample in samples if sample["draft_ms"] >= 0]
    row: dict[str, Any] = {"task": task, "method": variant.method} | (
        {} if variant.ratio is None else {"ratio": variant.ratio}
    )
    if not drafted:
        return row | {"n": 0}
    low, high = median_interval([sample["total_ratio"] for sample in drafted])
    shares = {name: statistics.fmean(sample[name] for sample in drafted) for name in ("unchanged", "identical")}
    return row | medians(drafted) | {"total_ratio_low": low, "total_ratio_high": high} | shares
