"""Discrete-event simulation of several engines, each with an LRU budget of chunk KV and one prefill at a time.

Requests are served first come, first served. Events of a cache reach the router at once: the map is exact.
"""

import heapq
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.cache.simulate import PREFIX_TOKENS, QUESTION_TOKENS
from cluster.routing import ChunkMap, PrefixRouting, RandomRouting, Routing, RoutingConfig, SetRouting
from engine.cache.cost_model import CostModel

RECOMPUTE_RATIO = 0.2  # of cached tokens, CacheClip's default


@dataclass
class LruCache:
    """Chunk KV by content; `used` counts tokens."""

    budget: int
    used: int = 0
    chunks: OrderedDict[int, int] = field(default_factory=OrderedDict)

    def use(self, keys: Sequence[int], tokens: Sequence[int]) -> tuple[int, list[int], list[int]]:
        """Use or insert chunks; return the cached tokens, the chunks inserted and those evicted."""
        cached, inserted = 0, []
        for key in keys:
            if key in self.chunks:
                cached += tokens[key]
                self.chunks.move_to_end(key)
            else:
                self.chunks[key] = tokens[key]
                self.used += tokens[key]
                inserted.append(key)
        evicted = []
        while self.used > self.budget:
            key, size = self.chunks.popitem(last=False)
            self.used -= size
            evicted.append(key)
        return cached, inserted, evicted


def prefill_ms(costs: CostModel, cached: int, missed: int) -> float:
    """Return the time to recompute a part of the cached tokens and to compute the missed ones and the question."""
    computed = round(RECOMPUTE_RATIO * cached) + missed + QUESTION_TOKENS
    return costs.estimate_ms(PREFIX_TOKENS + cached + missed + QUESTION_TOKENS - computed, computed)


def saved_ms_per_token(costs: CostModel, tokens: int) -> float:
    """Return the prefill time that a cached token saves in a prompt of `tokens` tokens."""
    return (prefill_ms(costs, 0, tokens) - prefill_ms(costs, tokens, 0)) / tokens


def make_routing(name: str, config: RoutingConfig, engines: int, seed: int) -> tuple[Routing, ChunkMap]:
    """Return a policy with engines '0', '1', ... and the map that their events go to."""
    chunk_map = ChunkMap()
    makers: dict[str, Callable[[], Routing]] = {
        "set": lambda: SetRouting(config, chunk_map),
        "prefix": lambda: PrefixRouting(config),
        "random": lambda: RandomRouting(config, seed),
    }
    routing = makers[name]()
    for number in range(engines):
        routing.add_engine(str(number))
    return routing, chunk_map


def simulate(
    routing: Routing,
    chunk_map: ChunkMap,
    num_engines: int,
    demand: Iterable[tuple[int, ...]],
    tokens: Sequence[int],
    budget: int,
    costs: CostModel,
    gap_ms: float,
    warmup: int,
    seed: int,
) -> dict[str, Any]:
    """Serve all questions, `gap_ms` apart on average (Poisson); return the figures after the first `warmup` ones."""
    rng = np.random.default_rng(seed + 2)
    caches = [LruCache(budget) for _ in range(num_engines)]
    queues: list[deque[tuple[int, float, tuple[int, ...], float]]] = [deque() for _ in range(num_engines)]
    is_busy = [False] * num_engines
    busy_ms, ttfts, decisions_ns = [0.0] * num_engines, [], []
    hit_tokens = all_tokens = 0
    finishing: list[tuple[float, int, int, float]] = []  # time, number, engine, expected work
    saved = saved_ms_per_token(costs, 1000)

    def start(engine: int, now: float) -> None:
        nonlocal hit_tokens, all_tokens
        number, arrival, keys, work_ms = queues[engine].popleft()
        length = sum(tokens[key] for key in keys)
        cached, inserted, evicted = caches[engine].use(keys, tokens)
        chunk_map.insert(str(engine), map(str, inserted))
        chunk_map.evict(str(engine), map(str, evicted))
        ms = prefill_ms(costs, cached, length - cached)
        is_busy[engine] = True
        heapq.heappush(finishing, (now + ms, number, engine, work_ms))
        if number >= warmup:
            busy_ms[engine] += ms
            ttfts.append(now + ms - arrival)
            hit_tokens += cached
            all_tokens += length

    def finish_until(limit: float) -> float:
        now = 0.0
        while finishing and finishing[0][0] <= limit:
            now, _, engine, work_ms = heapq.heappop(finishing)
            routing.finished(str(engine), work_ms)
            is_busy[engine] = False
            if queues[engine]:
                start(engine, now)
        return now

    now = measured_from = 0.0
    for number, keys in enumerate(demand):
        now += rng.exponential(gap_ms)
        finish_until(now)
        measured_from = now if number == warmup else measured_from
        began = time.perf_counter_ns()
        engine = int(routing.choose([(str(key), tokens[key]) for key in keys]))
        decisions_ns.append(time.perf_counter_ns() - began)
        length = sum(tokens[key] for key in keys)
        held = sum(tokens[key] for key in keys if key in caches[engine].chunks)
        work_ms = max(1.0, prefill_ms(costs, 0, length) - saved * held)
        routing.started(str(engine), work_ms)
        queues[engine].append((number, now, keys, work_ms))
        if not is_busy[engine]:
            start(engine, now)
    end = finish_until(float("inf"))
    return {
        "hit_rate": hit_tokens / all_tokens,
        "mean_ttft_ms": float(np.mean(ttfts)),
        "p99_ttft_ms": float(np.percentile(ttfts, 99)),
        "throughput": 1e3 * len(ttfts) / (end - measured_from),
        "work_ms": sum(busy_ms) / len(ttfts),
        "max_over_mean_load": max(busy_ms) * num_engines / sum(busy_ms),
        "decision_p99_ms": float(np.percentile(decisions_ns, 99)) / 1e6,
        "n": len(ttfts),
    }


def summed_memory(demand: Iterable[tuple[int, ...]], tokens: Sequence[int], budget: int, warmup: int) -> dict[str, Any]:
    """Return the hit rate of one cache of `budget` tokens that sees all questions."""
    cache, hits, total, count = LruCache(budget), 0, 0, 0
    for number, keys in enumerate(demand):
        cached = cache.use(keys, tokens)[0]
        if number >= warmup:
            hits, total, count = hits + cached, total + sum(tokens[key] for key in keys), count + 1
    return {"hit_rate": hits / total, "n": count}


def decision_times(engines: int, chunks: int, seed: int, repeats: int = 5000) -> dict[str, Any]:
    """Return the time of a decision of set routing with `chunks` chunks in the map, each on one or two engines."""
    rng = np.random.default_rng(seed)
    routing, chunk_map = make_routing("set", RoutingConfig(0.9), engines, seed)
    homes = rng.integers(engines, size=(chunks, 2))
    for engine in range(engines):
        chunk_map.insert(str(engine), map(str, np.flatnonzero((homes == engine).any(axis=1)).tolist()))
        routing.started(str(engine), float(rng.uniform(0, 3000)))
    times_ns = []
    for keys in rng.integers(2 * chunks, size=(repeats, 4)).tolist():  # half of them are held by no engine
        question = [(str(key), 300) for key in keys]
        began = time.perf_counter_ns()
        routing.choose(question)
        times_ns.append(time.perf_counter_ns() - began)
    return {
        "decision_p50_ms": float(np.median(times_ns)) / 1e6,
        "decision_p99_ms": float(np.percentile(times_ns, 99)) / 1e6,
    }
