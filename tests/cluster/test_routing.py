"""Routing against brute-force references."""

import random
from threading import Thread

import pytest

from cluster.routing import (
    ChunkMap,
    NoEngine,
    PrefixRouting,
    RandomRouting,
    RoutingConfig,
    SetRouting,
    rendezvous_weight,
    stable_hash,
)

CONFIG = RoutingConfig(saved_ms_per_token=0.5)
POLICIES = {
    "set": lambda: SetRouting(CONFIG, ChunkMap()),
    "prefix": lambda: PrefixRouting(CONFIG),
    "random": lambda: RandomRouting(CONFIG),
}


def home(key, engines):
    return max(engines, key=lambda engine: rendezvous_weight(stable_hash(key), stable_hash(engine)))


def test_rendezvous_moves_only_the_keys_of_the_engine_that_leaves():
    engines = [f"engine {number}" for number in range(10)]
    keys = [f"chunk {number}" for number in range(5000)]
    before = {key: home(key, engines) for key in keys}
    after = {key: home(key, engines[1:]) for key in keys}
    moved = [key for key in keys if before[key] != after[key]]
    assert all(before[key] == engines[0] for key in moved)
    assert len(moved) / len(keys) == pytest.approx(0.1, abs=0.02)
    assert max(list(before.values()).count(engine) for engine in engines) < 1.2 * 500


def test_events_in_any_order_and_a_digest_converge():
    rng = random.Random(1)
    chunk_map, held = ChunkMap(), {engine: set() for engine in "abc"}
    for _ in range(2000):
        engine, key = rng.choice("abc"), str(rng.randrange(40))
        insert = rng.random() < 0.5
        (held[engine].add if insert else held[engine].discard)(key)
        if rng.random() < 0.8:  # the others are lost
            (chunk_map.insert if insert else chunk_map.evict)(engine, [key])
    assert any(chunk_map.chunks_of(engine) != held[engine] for engine in "abc")
    for engine in "abc":
        chunk_map.digest(engine, held[engine])
    for key in map(str, range(40)):
        assert set(chunk_map.holders(key)) == {engine for engine in "abc" if key in held[engine]}
    chunk_map.remove_engine("a")
    assert all("a" not in chunk_map.holders(key) for key in map(str, range(40)))


@pytest.mark.parametrize("name", POLICIES)
def test_the_load_bound_is_never_exceeded(name):
    rng, routing = random.Random(2), POLICIES[name]()
    for engine in "abcde":
        routing.add_engine(engine)
    for _ in range(6000):
        loads = {engine: routing.load_ms(engine) for engine in routing.engines()}
        engine = routing.choose([(str(rng.randrange(5)), 300)])  # few chunks: affinity alone would overload an engine
        mean = sum(loads.values()) / len(loads)
        assert loads[engine] <= max(min(loads.values()), 1.25 * mean, mean + 5_000) + 1e-6
        work_ms = rng.uniform(1, 900)
        routing.started(engine, work_ms)
        routing.finished(engine, work_ms)
        assert routing.queued_ms(engine) == pytest.approx(0, abs=1e-6)


def test_set_routing_chooses_the_highest_score_whatever_the_order():
    rng = random.Random(3)
    for _ in range(300):
        chunk_map = ChunkMap()
        routing = SetRouting(RoutingConfig(0.5, load_bound=1e9, hot_share=1e9), chunk_map)
        held, queued = {}, {}
        for engine in "abcdef":
            routing.add_engine(engine)
            held[engine] = {str(key) for key in range(8) if rng.random() < 0.3}
            chunk_map.insert(engine, held[engine])
            queued[engine] = rng.choice([0, 50, 100, 200])
            routing.started(engine, queued[engine])
        chunks = [(str(key), rng.choice([100, 200])) for key in rng.sample(range(8), 4)]
        if not any(key in keys for key, _ in chunks for keys in held.values()):
            continue
        score = {e: 0.5 * sum(n for key, n in chunks if key in held[e]) - queued[e] for e in held}
        chosen = routing.choose(chunks)
        assert score[chosen] == max(score.values())
        assert routing.choose(chunks[::-1]) == chosen


def test_prefix_routing_follows_the_longest_common_prefix_and_not_the_set():
    routing = PrefixRouting(RoutingConfig(0.5, load_bound=1e9))
    for engine in "abcdef":
        routing.add_engine(engine)
    first = routing.choose([("x", 100), ("y", 100), ("z", 100)])
    routing.started(first, 120)  # more than the 50 ms of one chunk or the 100 ms of two, less than the 150 ms of three
    assert routing.choose([("x", 100), ("y", 100), ("z", 100)]) == first
    assert routing.choose([("y", 100), ("x", 100), ("z", 100)]) != first


def test_prefix_routing_forgets_what_exceeds_its_memory():
    routing = PrefixRouting(RoutingConfig(0.5, prefix_tokens=1000))
    routing.add_engine("a")
    for number in range(50):
        routing.choose([(str(number), 300), ("y", 100)])
    assert len(routing._map.chunks_of("a")) <= 6


def test_a_new_chunk_goes_to_its_home_and_a_hot_one_to_a_second_engine():
    chunk_map = ChunkMap()
    routing = SetRouting(RoutingConfig(1.0, load_bound=1e9), chunk_map)
    engines = [f"e{number}" for number in range(8)]
    for engine in engines:
        routing.add_engine(engine)
    chunks = [("hot", 100)]
    assert routing.choose(chunks) == home("hot", engines)
    chunk_map.insert(home("hot", engines), ["hot"])
    second = home("hot", [engine for engine in engines if engine != home("hot", engines)])
    routing.started(home("hot", engines), 50)
    for _ in range(20):
        chosen = routing.choose(chunks)
    assert chosen == second


@pytest.mark.parametrize("name", POLICIES)
def test_an_engine_that_left_is_never_chosen(name):
    routing = POLICIES[name]()
    for engine in "abc":
        routing.add_engine(engine)
    for number in range(30):
        routing.started(routing.choose([(str(number), 100)]), 10)
    routing.remove_engine("b")
    routing.started("b", 10)
    routing.finished("b", 10)
    assert "b" not in {routing.choose([(str(number), 100)]) for number in range(100)}
    routing.remove_engine("a")
    routing.remove_engine("c")
    with pytest.raises(NoEngine):
        routing.choose([("1", 100)])


def test_threads_lose_no_work():
    routing = SetRouting(CONFIG, ChunkMap())
    for engine in "abc":
        routing.add_engine(engine)

    def serve(seed):
        rng = random.Random(seed)
        for _ in range(300):
            engine = routing.choose([(str(rng.randrange(9)), 100)])
            routing.started(engine, 1.0)
            routing.finished(engine, 1.0)

    threads = [Thread(target=serve, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(routing.queued_ms(engine) == 0 for engine in "abc")
