"""The cluster simulation at a tiny scale."""

import pytest

from bench.__main__ import _parser
from bench.cluster.run import _read_costs
from bench.cluster.simulate import LruCache, Simulation, SimulationConfig, make_routing, summed_memory
from bench.cluster.workload import WORKLOADS, ClusterWorkloadConfig, chunk_tokens, questions
from cluster.routing import RoutingConfig
from engine.cache.cost_model import CostModel

COSTS = CostModel((0, 1000), (1, 1000), ((10.0, 1000.0), (10.0, 2000.0)))
CONFIG = ClusterWorkloadConfig(chunks=800)
FIGURES = ("hit_rate", "mean_ttft_ms", "p99_ttft_ms", "throughput", "work_ms", "max_over_mean_load", "n")


def run(name, engines, budget=40_000, config=CONFIG, count=600, seed=1, **options):
    routing, chunk_map = make_routing(name, RoutingConfig(0.9), engines, seed)
    tokens, demand = chunk_tokens(config, seed), questions(config, count, seed)
    simulated = SimulationConfig(engines, budget, 2000 / engines, 100, seed, **options)
    figures = Simulation(simulated, routing, chunk_map, tokens, COSTS).run(demand, count)
    left = [routing.queued_ms(str(engine)) for engine in range(engines)]
    return {key: figures[key] for key in FIGURES}, left


@pytest.mark.parametrize("name", ["set", "prefix", "random"])
def test_every_question_is_served_and_no_work_is_left(name):
    figures, left = run(name, 3)
    assert figures["n"] == 500
    assert left == pytest.approx([0, 0, 0], abs=1e-6)
    assert figures["max_over_mean_load"] >= 1 and figures["mean_ttft_ms"] >= figures["work_ms"]


@pytest.mark.parametrize("name", ["set", "prefix", "random"])
def test_every_question_is_served_although_engines_restart_and_events_are_late(name):
    undisturbed, _ = run(name, 3)
    figures, left = run(name, 3, restarts=12, event_delay_ms=5000)
    assert figures["n"] == 500 and left == pytest.approx([0, 0, 0], abs=1e-6)
    assert figures["hit_rate"] < undisturbed["hit_rate"]  # restarts lose KV


def test_the_same_seed_gives_the_same_figures():
    assert run("set", 3) == run("set", 3)
    assert run("set", 3) != run("set", 3, seed=2)


def test_with_one_engine_all_routings_are_equal_to_one_cache():
    rows = [run(name, 1)[0] for name in ("set", "prefix", "random")]
    assert rows[0] == rows[1] == rows[2]
    alone = summed_memory(questions(CONFIG, 600, 1), chunk_tokens(CONFIG, 1), 40_000, 100)
    assert alone["hit_rate"] == rows[0]["hit_rate"]


def test_the_cache_keeps_its_budget_and_evicts_the_least_recently_used():
    cache = LruCache(250)
    assert cache.use([0, 1], [100, 100, 100]) == (0, [0, 1], [])
    assert cache.use([0], [100, 100, 100]) == (100, [], [])
    assert cache.use([2], [100, 100, 100]) == (0, [2], [1])
    assert cache.used == sum(cache.chunks.values()) == 200


@pytest.mark.parametrize("kind", WORKLOADS)
def test_passages_are_distinct_and_have_lengths(kind):
    config = ClusterWorkloadConfig(chunks=800, kind=kind)
    tokens = chunk_tokens(config, 1)
    for keys in questions(config, 300, 1):
        assert len(set(keys)) == len(keys) and max(keys) < len(tokens)
        if kind != "independent":
            assert len(keys) == 4 and len({key // 16 for key in keys}) == 1
        if kind == "ordered":
            assert list(keys) == sorted(keys)


@pytest.mark.parametrize("load", ["0", "-1", "nan", "inf", "much"])
def test_a_load_that_is_no_positive_number_is_refused(load, capsys):
    with pytest.raises(SystemExit):
        _parser().parse_args(["cluster", "--utilisation", load])
    assert "is not a number above 0" in capsys.readouterr().err


def test_an_impossible_skew_is_refused():
    with pytest.raises(ValueError, match=r"below 1, got 1\.5"):
        ClusterWorkloadConfig(skew=1.5)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"ms": 1}'])
def test_a_file_without_costs_is_named(tmp_path, content):
    path = tmp_path / "costs.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"costs\.json is not a cost model"):
        _read_costs(path)
