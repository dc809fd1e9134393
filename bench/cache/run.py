"""The arguments of `python -m bench cache`, and a row for each arm."""

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
from bench.harness.engine import EmptyFinder, model_config
from bench.harness.workload import open_workload
from bench.tables import progress
from engine.builder import Models, build_engine, load_cost_model, load_models
from engine.cache.cost_model import CostModel, measure_costs
from engine.cache.eviction import POLICIES
from engine.cache.tiers.hierarchy import CacheHierarchy, CacheHierarchyConfig
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
    "gain_share": "share faster",
    "hit_speedup": "x on full hits",
    "full_hits": "full hits",
    "overtaken": "most overtaken",
    "ttft_ms": "TTFT ms",
    "plain_ttft_ms": "without ms",
    "gained_ms": "gained ms",
    "same_answers": "same answers",
    "operation": "operation",
    "nodes": "nodes",
    "median_us": "median \u00b5s",
    "p99_us": "p99 \u00b5s",
    "n": "n",
}
GIB = 2**30
LOAD = 0.95  # of what the engine can serve: a queue that grows and shrinks
EVERY = [*POLICIES, NO_CACHE]


def add_arguments(parser: ArgumentParser) -> None:
    """Take what this measure needs beside the arguments of all."""
    parser.add_argument("--show", choices=list(_SHOWN), default="policies")
    parser.add_argument("--simulate", action="store_true", help="policies at scale, under the measured cost model")
    parser.add_argument("--policies", nargs="+", choices=EVERY, default=EVERY, metavar="POLICY", help=", ".join(EVERY))
    parser.add_argument("--budgets", type=float, nargs="+", metavar="GIB", help="memory for KV")
    parser.add_argument("--skews", type=float, nargs="+", default=[0.6], help="share that goes to the top 3 %%")
    parser.add_argument("--seeds", type=int, default=1, help="how many, from --seed on")
    parser.add_argument("--documents", type=int, help="in the library")
    parser.add_argument("--questions", type=int, help="measured, behind as many again divided by two to warm up")
    parser.add_argument(
        "--tokens",
        type=int,
        nargs=2,
        default=[128, 480],
        metavar="N",
        help="of a passage on the engine, least and most",
    )
    parser.add_argument(
        "--drift", type=int, default=0, metavar="N", help="questions in which two thirds change popularity"
    )
    parser.add_argument("--passages", type=int, default=2, help="of a question")


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return the rows of one part."""
    at_scale = arguments.simulate and arguments.show == "policies"
    return _simulated(arguments) if at_scale else _SHOWN[arguments.show](arguments)


def _simulated(arguments: Namespace) -> list[dict[str, Any]]:
    (costs, token_bytes), rows = _measured(arguments), []
    count, budgets = arguments.questions or 100_000, arguments.budgets or [32.0, 128.0, 512.0]
    arms = [
        (skew, budget, seed, policy)
        for skew in arguments.skews
        for budget in budgets
        for seed in range(arguments.seed, arguments.seed + arguments.seeds)
        for policy in arguments.policies
    ]
    for skew, budget, seed, policy in progress(arms, "simulating"):
        demand = RequestStream(_at_scale(arguments, skew), seed)
        reuse = SimulatedCache(policy, int(budget * GIB), token_bytes, costs, demand)
        served = list(simulate(reuse, demand, count // 2, count))
        hits = [(one.hit_tokens, one.tokens, one.ttft_ms, one.ttft_ms) for one in served]
        arm = {"show": "simulated", "policy": policy, "skew": skew, "drift": arguments.drift, "budget": budget}
        rows.append(arm | {"seed": seed} | _row(hits))
    return rows


def _policies(arguments: Namespace) -> list[dict[str, Any]]:
    models, rows = load_models(model_config(arguments)), []
    for skew in arguments.skews:
        for budget in arguments.budgets or [0.1, 0.2, 0.4]:
            for seed in range(arguments.seed, arguments.seed + arguments.seeds):
                arms = [(policy, Full() if policy == NO_CACHE else Prefix()) for policy in arguments.policies]
                asked = _replayed(arguments, models, arms, budget, skew, seed)
                for policy, mine in zip(arguments.policies, asked, strict=True):
                    arm = {"show": "engine", "policy": policy, "skew": skew, "budget": budget, "seed": seed}
                    rows.append(arm | _row(_figures(mine)))
    return rows


def _reuse(arguments: Namespace) -> list[dict[str, Any]]:
    """The same questions without reuse, with exact prefixes, and with CacheClip on top; paired."""
    models, budget, skew, rows = load_models(model_config(arguments)), (arguments.budgets or [4.0])[0], 0.6, []
    arms: list[tuple[str, str, Strategy]] = [
        (NO_CACHE, "full", Full()),
        ("pgdsf", "prefix", Prefix()),
        ("pgdsf", "cacheclip", CacheClip(0.2)),
        ("pgdsf", "cacheclip", CacheClip(0.1)),
    ]
    served = _replayed(arguments, models, [(arm[0], arm[2]) for arm in arms], budget, skew, arguments.seed)
    plain = served[0]
    for (policy, method, strategy), asked in zip(arms, served, strict=True):
        faster = [slow.ttft_ms / fast.ttft_ms for slow, fast in zip(plain, asked, strict=True)]
        whole = [ratio for ratio, one in zip(faster, asked, strict=True) if one.exact == one.passages]
        row: dict[str, Any] = {"show": "reuse", "policy": policy, "method": method, "skew": skew}
        row |= {"budget": budget, "seed": arguments.seed} | _row(_figures(asked))
        row |= {
            "ratio": getattr(strategy, "ratio", None),
            "against_none": sum(one.busy_ms for one in plain) / sum(one.busy_ms for one in asked),
            "gain_share": statistics.fmean(ratio > 1.2 for ratio in faster),
            "hit_speedup": statistics.median(whole) if whole else None,
            "full_hits": len(whole),
        }
        rows.append(row)
    return rows


def _queue(arguments: Namespace) -> list[dict[str, Any]]:
    (costs, token_bytes), rows = _measured(arguments), []
    count, budget = arguments.questions or 4000, (arguments.budgets or [128.0])[0]
    config = _at_scale(arguments, arguments.skews[0])
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        gap_ms = None
        for window in (0, 8, 32):
            demand = RequestStream(config, seed)
            reuse = SimulatedCache("pgdsf", int(budget * GIB), token_bytes, costs, demand)
            warm = [one.ttft_ms for one in simulate(reuse, demand, count, count)]
            gap_ms = gap_ms or statistics.fmean(warm) / LOAD
            served = simulate_queue(reuse, demand, count, gap_ms, window, seed)
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
                    "overtaken": served.times_skipped,
                    "n": count,
                }
            )
    return rows


def _speculation(arguments: Namespace) -> list[dict[str, Any]]:
    rows = []
    for extra_ms in (200.0, 500.0):
        with open_workload(arguments, arguments.lengths[0]) as work:
            asked = [
                Request(question, "full", passages=work.passages, max_new_tokens=8)
                for question in work.questions[: arguments.samples + 1]
            ]
            rows.append({"show": "speculation"} | compare_speculation(work.engine, asked, extra_ms))
    return rows


_SHOWN = {
    "policies": _policies,
    "reuse": _reuse,
    "queue": _queue,
    "speculation": _speculation,
    "operations": lambda arguments: [row for nodes in (1_000, 10_000, 100_000) for row in measure_operations(nodes)],
}


def _replayed(
    arguments: Namespace, models: Models, arms: Sequence[tuple[str, Strategy]], budget: float, skew: float, seed: int
) -> list[list[ReplayedQuestion]]:
    """Ask the load's questions of arms, a policy and a strategy each, with memory for `budget` GiB and no disk."""
    count = arguments.questions or 60
    lengths = (arguments.tokens[0], arguments.tokens[1])
    demand = RequestStream(RequestStreamConfig(arguments.documents or 100, arguments.passages, skew, lengths), seed)
    asked = list(demand.questions(count // 2 + count))
    made = []
    for policy, strategy in arms:
        settings = CacheHierarchyConfig(int(budget * GIB), 0, policy=policy if policy != NO_CACHE else "lru")
        tiers = CacheHierarchy(settings, None, models.primary.device)
        made.append((build_engine(models, lambda tokenizer: EmptyFinder(), tiers, arguments.data), strategy))
    return replay(made, asked, make_passages(made[0][0], demand, seed), count // 2)


def _at_scale(arguments: Namespace, skew: float) -> RequestStreamConfig:
    return RequestStreamConfig(arguments.documents or 100_000, arguments.passages, skew, drift=arguments.drift)


def _measured(arguments: Namespace) -> tuple[CostModel, int]:
    """Return what computing costs the primary on this machine, and the bytes of a token's KV."""
    primary = load_models(model_config(arguments)).primary
    costs = load_cost_model(primary, arguments.data) or measure_costs(primary)
    return costs, primary.spec.kv_bytes(1, primary.dtype.itemsize)


def _figures(asked: Sequence[ReplayedQuestion]) -> list[tuple[int, int, float, float]]:
    return [(one.hit_tokens, one.tokens, one.ttft_ms, one.busy_ms) for one in asked]


def _row(served: Sequence[tuple[int, int, float, float]]) -> dict[str, Any]:
    """Return the figures of hit tokens, tokens, milliseconds to the first token and busy, of each question."""
    hits, tokens, ttft, busy = zip(*served, strict=True)
    return {
        "hit_rate": sum(hits) / sum(tokens),
        "mean_ttft_ms": statistics.fmean(ttft),
        "p99_ttft_ms": float(np.percentile(ttft, 99)),
        "throughput": 1e3 * len(served) / sum(busy),
        "n": len(served),
    }
