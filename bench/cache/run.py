"""RAGCache (arXiv:2404.12457): eviction policies, reuse against none, reordering, speculation.

By default eviction policies are compared on the real engine at small scale; --simulate compares them at the paper's
scale with the cost model measured on this machine. --show selects another part of the paper.
"""

import statistics
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from bench.cache.replay import compare_speculation, replay
from bench.cache.simulate import NO_CACHE, SimulatedCache, measure_operations, simulate, simulate_queue
from bench.cache.workload import RequestStream, RequestStreamConfig, Served
from bench.harness.engine import model_config
from bench.harness.workload import GIB, open_workload
from bench.tables import columns_of, progress
from engine.builder import load_cost_model, load_models
from engine.cache.cost_model import CostModel, measure_costs
from engine.cache.eviction import POLICIES
from engine.strategies import CacheClip, Full, Prefix

TITLE = "RAGCache: policies, reuse, reordering, speculation"
COLUMNS = columns_of(
    "show policy method ratio window stage_ms skew drift budget seed hit_rate mean_ttft_ms p99_ttft_ms throughput "
    "against_none gain_share hit_speedup full_hits overtaken ttft_ms plain_ttft_ms gained_ms same_answers "
    "operation nodes median_us p99_us n"
)
LOAD = 0.95  # of the engine's throughput
ALL_POLICIES = [*POLICIES, NO_CACHE]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of this measure."""
    add = parser.add_argument
    add("--show", choices=list(_PARTS), default="policies")
    add("--simulate", action="store_true", help="policies at the paper's scale, with the measured cost model")
    policies = ", ".join(ALL_POLICIES)
    add("--policies", nargs="+", choices=ALL_POLICIES, default=ALL_POLICIES, metavar="POLICY", help=policies)
    add("--cache-gib", "--budgets", dest="budgets", type=float, nargs="+", metavar="GIB", help="memory tier sizes")
    skew = "fraction of requests for the most popular 3 %%"
    add("--zipf-skew", "--skews", dest="skews", type=float, nargs="+", default=[0.6], help=skew)
    add("--seeds", type=int, default=1, help="number of seeds, from --seed on")
    add("--documents", type=int, help="in the library")
    add("--questions", type=int, help="measured, after half as many for warm-up")
    tokens = "minimum and maximum tokens per passage on the engine"
    add("--tokens", type=int, nargs=2, default=[128, 480], metavar="N", help=tokens)
    drift = "questions within which two thirds change popularity"
    add("--drift", type=int, default=0, metavar="N", help=drift)
    add("--passages", type=int, default=2, help="per question")


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return the rows of the selected part."""
    at_scale = arguments.simulate and arguments.show == "policies"
    return _simulated(arguments) if at_scale else _PARTS[arguments.show](arguments)


def _simulated(arguments: Namespace) -> list[dict[str, Any]]:
    costs, token_bytes = _cost_model(arguments)
    rows = []
    count, budgets = arguments.questions or 100_000, arguments.budgets or [32.0, 128.0, 512.0]
    settings = list(product(arguments.skews, budgets, _seeds(arguments), arguments.policies))
    for skew, budget, seed, policy in progress(settings, "simulating"):
        stream = RequestStream(_stream_config(arguments, skew), seed)
        cache = SimulatedCache(policy, int(budget * GIB), token_bytes, costs, stream)
        served = simulate(cache, stream, count // 2, count)
        row = {"show": "simulated", "policy": policy, "skew": skew, "drift": arguments.drift, "budget": budget}
        rows.append(row | {"seed": seed} | _aggregate(served))
    return rows


def _policies(arguments: Namespace) -> list[dict[str, Any]]:
    models = load_models(model_config(arguments))
    rows = []
    variants = [(policy, Full() if policy == NO_CACHE else Prefix()) for policy in arguments.policies]
    for skew, budget, seed in product(arguments.skews, arguments.budgets or [0.1, 0.2, 0.4], _seeds(arguments)):
        results = replay(arguments, models, variants, budget, skew, seed)
        for policy, served in zip(arguments.policies, results, strict=True):
            row = {"show": "engine", "policy": policy, "skew": skew, "drift": arguments.drift, "budget": budget}
            rows.append(row | {"seed": seed} | _aggregate(served))
    return rows


def _reuse(arguments: Namespace) -> list[dict[str, Any]]:
    """Compare no reuse, exact prefixes, and CacheClip on top on the same questions."""
    models = load_models(model_config(arguments))
    budget, skew = (arguments.budgets or [4.0])[0], 0.6
    methods = ("full", "prefix", "cacheclip", "cacheclip")
    variants = [(NO_CACHE, Full()), ("pgdsf", Prefix()), ("pgdsf", CacheClip(0.2)), ("pgdsf", CacheClip(0.1))]
    results = replay(arguments, models, variants, budget, skew, arguments.seed)
    plain = results[0]
    rows = []
    for method, (policy, strategy), served in zip(methods, variants, results, strict=True):
        speedups = [slow.ttft_ms / fast.ttft_ms for slow, fast in zip(plain, served, strict=True)]
        full_hits = [speedup for speedup, one in zip(speedups, served, strict=True) if one.is_full_hit]
        row = {
            "show": "reuse",
            "policy": policy,
            "method": method,
            "ratio": getattr(strategy, "ratio", None),
            "skew": skew,
            "budget": budget,
            "seed": arguments.seed,
            "against_none": sum(one.busy_ms for one in plain) / sum(one.busy_ms for one in served),
            "gain_share": statistics.fmean(speedup > 1.2 for speedup in speedups),
            "hit_speedup": statistics.median(full_hits) if full_hits else None,
            "full_hits": len(full_hits),
        }
        rows.append(row | _aggregate(served))
    return rows


def _queue(arguments: Namespace) -> list[dict[str, Any]]:
    costs, token_bytes = _cost_model(arguments)
    rows = []
    count, budget = arguments.questions or 4000, (arguments.budgets or [128.0])[0]
    config = _stream_config(arguments, arguments.skews[0])
    for seed in _seeds(arguments):
        gap_ms = None
        for window in (0, 8, 32):
            stream = RequestStream(config, seed)
            cache = SimulatedCache("pgdsf", int(budget * GIB), token_bytes, costs, stream)
            warmup = [one.ttft_ms for one in simulate(cache, stream, count, count)]
            gap_ms = gap_ms or statistics.fmean(warmup) / LOAD
            result = simulate_queue(cache, stream, count, gap_ms, window, seed)
            row = {"show": "queue", "policy": "pgdsf", "window": window, "skew": config.skew, "budget": budget}
            row |= {"seed": seed, "overtaken": result.max_skips} | _aggregate(result.served)
            rows.append(row | {"throughput": 1e3 * count / result.total_ms})
    return rows


def _speculation(arguments: Namespace) -> list[dict[str, Any]]:
    rows = []
    for extra_ms in (200.0, 500.0):
        with open_workload(arguments, arguments.lengths[0]) as work:
            rows.append(compare_speculation(work, extra_ms))
    return rows


_PARTS = {
    "policies": _policies,
    "reuse": _reuse,
    "queue": _queue,
    "speculation": _speculation,
    "operations": lambda arguments: [row for nodes in (1_000, 10_000, 100_000) for row in measure_operations(nodes)],
}


def _seeds(arguments: Namespace) -> range:
    return range(arguments.seed, arguments.seed + arguments.seeds)


def _stream_config(arguments: Namespace, skew: float) -> RequestStreamConfig:
    return RequestStreamConfig(arguments.documents or 100_000, arguments.passages, skew, drift=arguments.drift)


def _cost_model(arguments: Namespace) -> tuple[CostModel, int]:
    """Return the main model's cost model on this machine, and the KV bytes of a token."""
    primary = load_models(model_config(arguments)).primary
    costs = load_cost_model(primary, arguments.data) or measure_costs(primary)
    return costs, primary.spec.kv_bytes(1, primary.dtype.itemsize)


def _aggregate(served: Sequence[Served]) -> dict[str, Any]:
    ttfts_ms = [one.ttft_ms for one in served]
    return {
        "hit_rate": sum(one.hit_tokens for one in served) / sum(one.tokens for one in served),
        "mean_ttft_ms": statistics.fmean(ttfts_ms),
        "p99_ttft_ms": float(np.percentile(ttfts_ms, 99)),
        "throughput": 1e3 * len(served) / sum(one.busy_ms for one in served),
        "n": len(served),
    }
