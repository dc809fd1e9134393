"""Routing over several engines: by set of chunks, common prefix, or at random, in a discrete-event simulation.

Each number of engines also gets a row for one cache with their summed memory. The last row is the time of a decision.
"""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from bench.arguments import positive_int, positive_number
from bench.cluster.simulate import (
    Simulation,
    SimulationConfig,
    decision_times,
    make_routing,
    prefill_ms,
    saved_ms_per_token,
    summed_memory,
)
from bench.cluster.workload import WORKLOADS, ClusterWorkloadConfig, chunk_tokens, questions
from bench.tables import columns_of, progress
from cluster.routing import RoutingConfig
from engine.cache.cost_model import CostModel

TITLE = "Cluster: routing over several engines, simulated"
COLUMNS = columns_of(
    "engines routing workload questions chunks event_delay_s restarts seed hit_rate mean_ttft_ms p99_ttft_ms "
    "throughput work_ms max_over_mean_load decision_p50_ms decision_p99_ms"
)
ROUTINGS = ("set", "prefix", "random")
# Prefill of the bundled model, 2 cores with AVX-512, attention kernel; written by engine.cache.cost_model.
MEASURED = CostModel(
    (0, 512, 2048),
    (1, 64, 256, 1024),
    ((44.9, 111.3, 242.2, 1084.9), (45.9, 120.0, 268.5, 1185.2), (52.2, 137.5, 560.1, 2404.1)),
)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of this measure."""
    add = parser.add_argument
    add("--engines", type=positive_int, nargs="+", default=[1, 2, 4])
    add("--routing", nargs="+", choices=ROUTINGS, default=list(ROUTINGS))
    add("--questions", type=positive_int, default=100_000, help="the first fifth is warm-up and not measured")
    add("--chunks", type=positive_int, default=100_000, help="in all documents")
    add("--workload", nargs="+", choices=WORKLOADS, default=["topics"], dest="workloads")
    add(
        "--budget-tokens",
        type=positive_int,
        default=370_000,
        help="of each engine; default: 8 GiB of KV, bundled model",
    )
    add("--utilisation", type=positive_number, default=0.7, help="of the engines if nothing is cached")
    add("--zipf-skew", type=float, default=0.6, help="fraction of the questions for the most popular 3 %% of documents")
    add("--event-delay-s", type=float, default=0.0, help="until the router knows what an engine inserted and evicted")
    add("--restarts", type=int, default=0, help="of engines, which lose their KV and are away for 20 s")
    add("--costs", type=Path, help="measured cost file (costs-*.json in a data folder); default: one recorded here")


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return a row for each workload, number of engines and routing."""
    costs = _read_costs(arguments.costs) if arguments.costs else MEASURED
    rows = []
    settings = [(kind, engines) for kind in arguments.workloads for engines in arguments.engines]
    for kind, engines in progress(settings, "simulating"):
        rows += _compare(arguments, costs, kind, engines)
    size = {"engines": 256, "routing": "set", "workload": "decision only", "chunks": 1_000_000}
    return [*rows, size | {"seed": arguments.seed} | decision_times(256, 1_000_000, arguments.seed)]


def _compare(arguments: Namespace, costs: CostModel, kind: str, engines: int) -> list[dict[str, Any]]:
    config = ClusterWorkloadConfig(chunks=arguments.chunks, skew=arguments.zipf_skew, kind=kind)
    tokens, count, seed = chunk_tokens(config, arguments.seed), arguments.questions, arguments.seed
    warmup, budget = count // 5, arguments.budget_tokens

    def demand() -> Iterator[tuple[int, ...]]:
        return questions(config, count, seed)

    sample = [sum(tokens[key] for key in keys) for keys in islice(demand(), 1000)]
    mean_ms = sum(prefill_ms(costs, 0, length) for length in sample) / len(sample)
    gap_ms = mean_ms / engines / arguments.utilisation
    routing_config = RoutingConfig(saved_ms_per_token(costs, 1000), prefix_tokens=budget)
    delay_ms, restarts = 1e3 * arguments.event_delay_s, arguments.restarts
    simulation = SimulationConfig(engines, budget, gap_ms, warmup, seed, delay_ms, restarts)
    row = {"workload": kind, "event_delay_s": arguments.event_delay_s, "restarts": restarts}
    row |= {"questions": count, "chunks": arguments.chunks, "seed": seed}
    runs: dict[str, dict[str, Any]] = {}
    for name in arguments.routing:
        routing, chunk_map = make_routing(name, routing_config, engines, seed)
        runs[name] = Simulation(simulation, routing, chunk_map, tokens, costs).run(demand(), count)
    runs["summed memory"] = summed_memory(demand(), tokens, engines * budget, warmup)
    return [{"engines": engines, "routing": name} | row | figures for name, figures in runs.items()]


def _read_costs(path: Path) -> CostModel:
    """Read a cost model. Raises OSError or ValueError if there is none."""
    try:
        stored = json.loads(path.read_text())
        rows = tuple(tuple(map(float, row)) for row in stored["ms"])
        return CostModel(tuple(stored["cached"]), tuple(stored["computed"]), rows)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a cost model: {error!r}. Name a costs-*.json of a data folder.") from error
