"""Arguments and rows of `python -m bench cache`."""

import statistics
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.cache.queue import simulate_queue
from bench.cache.replay import ReplayedQuestion, make_passages, replay
from bench.cache.simulate import NO_CACHE, SimulatedCache, simulate
from bench.cache.speculation import compare_speculation
from bench.cache.tree_ops import measure_operations
from bench.cache.workload import RequestStream, RequestStreamConfig
from bench.harness.engine import model_config
from bench.harness.workload import open_workload
from bench.tables import progress
from engine.builder import Models, build_engine, load_cost_model, load_models
from engine.cache.cost_model import CostModel, measure_costs
from engine.cache.eviction import POLICIES
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.prompt.text_finder import TextFinder
from engine.request import Request
from engine.strategies import CacheClip, Full, Prefix, Strategy

TITLE = "RAGCache: policies, reuse, reordering, speculation"
COLUMNS = {
    "show": "show",
    "policy": "policy",
    "method": "method",
    "ratio": "ratio",
    "window": "window",
    "stage_ms": "stage ms",
    "skew": "skew",
    "drift": "drift",
    "budget": "budget GiB",
    "seed": "seed",
    "hit_rate": "hit rate",
    "mean_ttft_ms": "mean TTFT ms",
    "p99_ttft_ms": "p99 ms",
    "throughput": "questions/s",
    "against_none": "x none",
    "gain_share": "fraction faster",
    "hit_speedup": "x on full hits",
    "full_hits": "full hits",
    "overtaken": "max skips",
    "ttft_ms": "TTFT ms",
    "plain_ttft_ms": "without, ms",
    "gained_ms": "gained ms",
    "same_answers": "same answers",
    "operation": "operation",
    "nodes": "nodes",
    "median_us": "median \u00b5s",
    "p99_us": "p99 \u00b5s",
    "n": "n",
}
GIB = 2**30
LOAD = 0.95  # of the engine's throughput
ALL_POLICIES = [*POLICIES, NO_CACHE]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of this measure."""
    parser.add_argument("--show", choices=list(_PARTS), default="policies")
    parser.add_argument(
        "--simulate", action="store_true", help="policies at the paper's scale, with the measured cost model"
    )
    parser.add_argument(
        "--policies",
        nargs="+",
        choices=ALL_POLICIES,
        default=ALL_POLICIES,
        metavar="POLICY",
        help=", ".join(ALL_POLICIES),
    )
    parser.add_argument(
        "--cache-gib", "--budgets", dest="budgets", type=float, nargs="+", metavar="GIB", help="memory tier sizes"
    )
    parser.add_argument(
        "--zipf-skew",
        "--skews",
        dest="skews",
        type=float,
        nargs="+",
        default=[0.6],
        help="fraction of requests for the most popular 3 %%",
    )
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds, from --seed on")
    parser.add_argument("--documents", type=int, help="in the library")
    parser.add_argument("--questions", type=int, help="measured, after half as many for warm-up")
    parser.add_argument(
        "--tokens",
        type=int,
        nargs=2,
        default=[128, 480],
        metavar="N",
        help="minimum and maximum tokens per passage on the engine",
    )
    parser.add_argument(
        "--drift", type=int, default=0, metavar="N", help="questions within which two thirds change popularity"
    )
    parser.add_argument("--passages", type=int, default=2, help="per question")


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return the rows of the selected part."""
    at_scale = arguments.simulate and arguments.show == "policies"
    return _simulated(arguments) if at_scale else _PARTS[arguments.show](arguments)


def _simulated(arguments: Namespace) -> list[dict[str, Any]]:
    (costs, token_bytes), rows = _cost_model(arguments), []
    count, budgets = arguments.questions or 100_000, arguments.budgets or [32.0, 128.0, 512.0]
    settings = [
        (skew, budget, seed, policy)
        for skew in arguments.skews
        for budget in budgets
        for seed in range(arguments.seed, arguments.seed + arguments.seeds)
        for policy in arguments.policies
    ]
    for skew, budget, seed, policy in progress(settings, "simulating"):
        stream = RequestStream(_stream_config(arguments, skew), seed)
        cache = SimulatedCache(policy, int(budget * GIB), token_bytes, costs, stream)
        served = list(simulate(cache, stream, count // 2, count))
        hits = [(one.hit_tokens, one.tokens, one.ttft_ms, one.ttft_ms) for one in served]
        row = {"show": "simulated", "policy": policy, "skew": skew, "drift": arguments.drift, "budget": budget}
        rows.append(row | {"seed": seed} | _aggregate(hits))
    return rows


def _policies(arguments: Namespace) -> list[dict[str, Any]]:
    models, rows = load_models(model_config(arguments)), []
    for skew in arguments.skews:
        for budget in arguments.budgets or [0.1, 0.2, 0.4]:
            for seed in range(arguments.seed, arguments.seed + arguments.seeds):
                variants = [(policy, Full() if policy == NO_CACHE else Prefix()) for policy in arguments.policies]
                results = _replay(arguments, models, variants, budget, skew, seed)
                for policy, result in zip(arguments.policies, results, strict=True):
                    row = {"show": "engine", "policy": policy, "skew": skew, "budget": budget, "seed": seed}
                    rows.append(row | _aggregate(_measurements(result)))
    return rows


def _reuse(arguments: Namespace) -> list[dict[str, Any]]:
    """Compare no reuse, exact prefixes, and CacheClip on top on the same questions."""
    models, budget, skew, rows = load_models(model_config(arguments)), (arguments.budgets or [4.0])[0], 0.6, []
    variants: list[tuple[str, str, Strategy]] = [
        (NO_CACHE, "full", Full()),
        ("pgdsf", "prefix", Prefix()),
        ("pgdsf", "cacheclip", CacheClip(0.2)),
        ("pgdsf", "cacheclip", CacheClip(0.1)),
    ]
    policies = [(policy, strategy) for policy, _, strategy in variants]
    results = _replay(arguments, models, policies, budget, skew, arguments.seed)
    plain = results[0]
    for (policy, method, strategy), result in zip(variants, results, strict=True):
        speedups = [slow.ttft_ms / fast.ttft_ms for slow, fast in zip(plain, result, strict=True)]
        full_hits = [
            speedup for speedup, one in zip(speedups, result, strict=True) if one.num_path_chunks == one.passages
        ]
        row: dict[str, Any] = {"show": "reuse", "policy": policy, "method": method, "skew": skew}
        row |= {"budget": budget, "seed": arguments.seed} | _aggregate(_measurements(result))
        row |= {
            "ratio": getattr(strategy, "ratio", None),
            "against_none": sum(one.busy_ms for one in plain) / sum(one.busy_ms for one in result),
            "gain_share": statistics.fmean(speedup > 1.2 for speedup in speedups),
            "hit_speedup": statistics.median(full_hits) if full_hits else None,
            "full_hits": len(full_hits),
        }
        rows.append(row)
    return rows


def _queue(arguments: Namespace) -> list[dict[str, Any]]:
    (costs, token_bytes), rows = _cost_model(arguments), []
    count, budget = arguments.questions or 4000, (arguments.budgets or [128.0])[0]
    config = _stream_config(arguments, arguments.skews[0])
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        gap_ms = None
        for window in (0, 8, 32):
            stream = RequestStream(config, seed)
            cache = SimulatedCache("pgdsf", int(budget * GIB), token_bytes, costs, stream)
            warmup = [one.ttft_ms for one in simulate(cache, stream, count, count)]
            gap_ms = gap_ms or statistics.fmean(warmup) / LOAD
            served = simulate_queue(cache, stream, count, gap_ms, window, seed)
            rows.append(
                {
                    "show": "queue",
                    "policy": "pgdsf",
                    "window": window,
                    "skew": config.skew,
                    "budget": budget,
                    "seed": seed,
                    "hit_rate": served.hit_rate,
                    "mean_ttft_ms": statistics.fmean(served.ttft_ms),
                    "p99_ttft_ms": float(np.percentile(served.ttft_ms, 99)),
                    "throughput": 1e3 * count / served.busy_ms,
                    "overtaken": served.max_skips,
                    "n": count,
                }
            )
    return rows


def _speculation(arguments: Namespace) -> list[dict[str, Any]]:
    rows = []
    for extra_ms in (200.0, 500.0):
        with open_workload(arguments, arguments.lengths[0]) as work:
            requests = [
                Request(question, "full", passages=work.passages, max_new_tokens=8)
                for question in work.questions[: arguments.samples + 1]
            ]
            rows.append({"show": "speculation"} | compare_speculation(work.engine, requests, extra_ms))
    return rows


_PARTS = {
    "policies": _policies,
    "reuse": _reuse,
    "queue": _queue,
    "speculation": _speculation,
    "operations": lambda arguments: [row for nodes in (1_000, 10_000, 100_000) for row in measure_operations(nodes)],
}


def _replay(
    arguments: Namespace,
    models: Models,
    variants: Sequence[tuple[str, Strategy]],
    budget: float,
    skew: float,
    seed: int,
) -> list[list[ReplayedQuestion]]:
    """Replay the stream for each (policy, strategy), with `budget` GiB of memory and no disk tier."""
    count = arguments.questions or 60
    lengths = (arguments.tokens[0], arguments.tokens[1])
    stream = RequestStream(RequestStreamConfig(arguments.documents or 100, arguments.passages, skew, lengths), seed)
    questions = list(stream.questions(count // 2 + count))
    engines = []
    for policy, strategy in variants:
        config = CacheHierarchyConfig(int(budget * GIB), 0, policy=policy if policy != NO_CACHE else "lru")
        tiers = CacheHierarchy(config, None, models.primary.device)
        engines.append((build_engine(models, lambda tokenizer: TextFinder(), tiers, arguments.data), strategy))
    return replay(engines, questions, make_passages(engines[0][0], stream, seed), count // 2)


def _stream_config(arguments: Namespace, skew: float) -> RequestStreamConfig:
    return RequestStreamConfig(arguments.documents or 100_000, arguments.passages, skew, drift=arguments.drift)


def _cost_model(arguments: Namespace) -> tuple[CostModel, int]:
    """Return the main model's cost model on this machine, and the KV bytes of a token."""
    primary = load_models(model_config(arguments)).primary
    costs = load_cost_model(primary, arguments.data) or measure_costs(primary)
    return costs, primary.spec.kv_bytes(1, primary.dtype.itemsize)


def _measurements(questions: Sequence[ReplayedQuestion]) -> list[tuple[int, int, float, float]]:
    return [(one.hit_tokens, one.tokens, one.ttft_ms, one.busy_ms) for one in questions]


def _aggregate(questions: Sequence[tuple[int, int, float, float]]) -> dict[str, Any]:
    """Aggregate (hit tokens, tokens, TTFT ms, busy ms) of each question."""
    hits, tokens, ttft, busy = zip(*questions, strict=True)
    return {
        "hit_rate": sum(hits) / sum(tokens),
        "mean_ttft_ms": statistics.fmean(ttft),
        "p99_ttft_ms": float(np.percentile(ttft, 99)),
        "throughput": 1e3 * len(questions) / sum(busy),
        "n": len(questions),
    }
