"""The bench of the knowledge tree: its demand is the paper's, its figures agree with simpler bookkeeping."""

from collections import Counter
from types import SimpleNamespace

import pytest

from bench.cache import replay
from bench.cache.simulate import (
    NO_CACHE,
    PREFIX_TOKENS,
    QUESTION_TOKENS,
    SimulatedCache,
    measure_operations,
    simulate,
    simulate_queue,
)
from bench.cache.workload import RequestStream, RequestStreamConfig, zipf_exponent
from engine.cache.cost_model import CostModel
from engine.cache.eviction import POLICIES
from engine.request import Request
from engine.strategies import Full, Prefix
from tests.support.doubles import TEXTS, make_engine

COSTS = CostModel((0, 1000), (1, 1000), ((10.0, 1000.0), (10.0, 2000.0)))
SMALL = RequestStreamConfig(documents=400, passages=2, skew=0.6, tokens=(50, 200))


def served(policy, budget, count=400, config=SMALL, seed=1):
    demand = RequestStream(config, seed)
    reuse = SimulatedCache(policy, budget, 1, COSTS, demand)
    return simulate(reuse, demand, 0, count), reuse


@pytest.mark.parametrize("skew", [0.2, 0.6, 0.8])
def test_the_most_popular_documents_get_their_share(skew):
    config = RequestStreamConfig(documents=2000, passages=1, skew=skew)
    demand = RequestStream(config, seed=3)
    counts = Counter(one for (one,) in demand.questions(30_000))
    top = sum(count for _, count in counts.most_common(60))
    assert top / 30_000 == pytest.approx(skew, abs=0.03)


def test_popularity_drifts_only_with_drift():
    config = RequestStreamConfig(documents=400, passages=1, skew=0.6, drift=2000)
    still, moved = RequestStream(RequestStreamConfig(documents=400, passages=1, skew=0.6), 4), RequestStream(config, 4)
    tops = [
        [Counter(one for (one,) in each.questions(4000)).most_common(1)[0][0] for _ in range(4)]
        for each in (still, moved)
    ]
    assert len(set(tops[0])) == 1 and len(set(tops[1])) > 1


def test_a_uniform_demand_has_no_exponent():
    assert zipf_exponent(1000, 0.03) == pytest.approx(0.0, abs=1e-3)


def test_the_same_seed_gives_the_same_questions():
    assert [*RequestStream(SMALL, 5).questions(50)] == [*RequestStream(SMALL, 5).questions(50)]
    assert [*RequestStream(SMALL, 5).questions(50)] != [*RequestStream(SMALL, 6).questions(50)]


@pytest.mark.parametrize("config", [{"skew": 0.01}, {"skew": 1.0}, {"documents": 1}])
def test_an_impossible_demand_is_refused(config):
    with pytest.raises(ValueError):
        RequestStreamConfig(**config)


def test_with_an_unlimited_cache_a_question_hits_every_path_requested_before():
    results, _ = served("lru", 2**40)
    demand = RequestStream(SMALL, 1)
    seen = set()
    for documents, one in zip(demand.questions(400), results, strict=True):
        paths = [documents[: end + 1] for end in range(len(documents))]
        found = next((number for number, path in enumerate(paths) if path not in seen), len(paths))
        assert one.hit_tokens == sum(demand.tokens[one] for one in documents[:found])
        assert one.ttft_ms == COSTS.estimate_ms(
            PREFIX_TOKENS + one.hit_tokens, one.tokens - one.hit_tokens + QUESTION_TOKENS
        )
        seen.update(paths)


def test_without_a_policy_nothing_is_found():
    results, reuse = served(NO_CACHE, 2**40)
    assert not any(one.hit_tokens for one in results) and not reuse.tree.nodes


@pytest.mark.parametrize("policy", POLICIES)
def test_memory_stays_within_its_budget(policy):
    _, reuse = served(policy, 3000)
    (tier,) = reuse.tree.tiers
    assert 0 < tier.size_bytes <= 3000


def test_reordering_keeps_its_bound_and_lowers_the_mean():
    found = {}
    for window in (0, 4, 32):
        demand = RequestStream(SMALL, 2)
        reuse = SimulatedCache("pgdsf", 6000, 1, COSTS, demand)
        found[window] = simulate_queue(reuse, demand, 600, gap_ms=150.0, window=window, seed=2)
        assert found[window].max_skips <= window
    waits = {window: [one.ttft_ms for one in result.served] for window, result in found.items()}
    assert len({round(ttfts[0], 6) for ttfts in waits.values()}) == 1
    assert sum(waits[32]) < sum(waits[0])


def test_every_operation_of_the_tree_has_a_row():
    rows = measure_operations(20)
    assert [row["operation"] for row in rows] == ["lookup", "use", "insert and evict", "delete"]
    assert all(0 < row["median_us"] <= row["p99_us"] and row["nodes"] == 20 for row in rows)


@pytest.mark.parametrize("strategy, is_kept", [(Full(), False), (Prefix(), True)])
def test_without_reuse_no_kv_is_kept(strategy, is_kept):
    engine = make_engine()
    prompt = replay._prompt(engine.template, list(TEXTS.values())[:2], 1)
    replay._ask(engine, strategy, prompt)
    assert bool(engine.cache.tree.match_prefix(engine.cache.path_keys(prompt.passage_ids))) is is_kept


def test_the_same_answers_are_counted_without_the_warm_up():
    def ask(request):
        yield SimpleNamespace(text="the same", trace=SimpleNamespace(ttft_ms=1.0))

    engine = SimpleNamespace(ask=ask, speculator=SimpleNamespace(), finder=SimpleNamespace(retrieve_stages=None))
    work = SimpleNamespace(engine=engine, numbers=range(4), request=lambda number: Request(f"Question {number}?"))
    row = replay.compare_speculation(work, 100.0)
    assert row["same_answers"] == row["n"] == 3
