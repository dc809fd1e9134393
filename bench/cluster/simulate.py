"""Discrete-event simulation of several engines, each with an LRU budget of chunk KV and one prefill at a time.

Requests are served first come, first served. Events of a cache reach the router after a delay, if one is set.
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


@dataclass(frozen=True)
class SimulationConfig:
    """What is simulated."""

    engines: int
    budget: int  # tokens of chunk KV of each engine
    gap_ms: float  # between two questions, on average (Poisson)
    warmup: int  # first questions, which are not measured
    seed: int
    event_delay_ms: float = 0.0  # until the router learns what an engine has inserted and evicted
    restarts: int = 0  # of engines, at random times: the KV is lost, and the questions go to other engines
    restart_ms: float = 20_000.0


@dataclass(frozen=True)
class _Question:
    number: int
    arrival_ms: float
    keys: tuple[int, ...]


@dataclass
class _Engine:
    """An engine, its queue, and the question that it prefills."""

    name: str
    cache: LruCache
    queue: deque[tuple[_Question, float]] = field(default_factory=deque)  # with the expected work in ms
    running: tuple[_Question, float] | None = None
    ran_until: float = 0.0  # when the running question ends
    busy_ms: float = 0.0
    is_away: bool = False


class Simulation:
    """Serves questions once."""

    def __init__(
        self,
        config: SimulationConfig,
        routing: Routing,
        chunk_map: ChunkMap,
        tokens: Sequence[int],  # of each chunk
        costs: CostModel,
    ) -> None:
        self._config, self._routing, self._map, self._tokens, self._costs = config, routing, chunk_map, tokens, costs
        self._rng = np.random.default_rng(config.seed + 2)
        self._engines = {str(each): _Engine(str(each), LruCache(config.budget)) for each in range(config.engines)}
        self._saved = saved_ms_per_token(costs, 1000)
        self._events: list[tuple[float, int, Callable[[float], None]]] = []  # a heap; the number orders equal times
        self._num_events = 0
        self._ttfts: list[float] = []
        self._decisions_ns: list[int] = []
        self._hit_tokens = self._all_tokens = 0

    def run(self, demand: Iterable[tuple[int, ...]], num_questions: int) -> dict[str, Any]:
        """Serve all questions; return the figures after the warm-up."""
        config = self._config
        for at in self._rng.uniform(0, num_questions * config.gap_ms, config.restarts):
            self._at(at, self._stop_engine)
        now = measured_from = 0.0
        for number, keys in enumerate(demand):
            now += self._rng.exponential(config.gap_ms)
            self._handle_until(now)
            measured_from = now if number == config.warmup else measured_from
            self._send(_Question(number, now, keys), now)
        self._handle_until(float("inf"))
        end = max(engine.ran_until for engine in self._engines.values())
        busy = [engine.busy_ms for engine in self._engines.values()]
        return {
            "hit_rate": self._hit_tokens / self._all_tokens,
            "mean_ttft_ms": float(np.mean(self._ttfts)),
            "p99_ttft_ms": float(np.percentile(self._ttfts, 99)),
            "throughput": 1e3 * len(self._ttfts) / (end - measured_from),
            "work_ms": sum(busy) / len(self._ttfts),
            "max_over_mean_load": max(busy) * len(busy) / sum(busy),
            "decision_p99_ms": float(np.percentile(self._decisions_ns, 99)) / 1e6,
            "n": len(self._ttfts),
        }

    def _at(self, when: float, action: Callable[[float], None]) -> None:
        self._num_events += 1
        heapq.heappush(self._events, (when, self._num_events, action))

    def _handle_until(self, limit: float) -> None:
        while self._events and self._events[0][0] <= limit:
            when, _, action = heapq.heappop(self._events)
            action(when)

    def _send(self, question: _Question, now: float) -> None:
        tokens = self._tokens
        began = time.perf_counter_ns()
        name = self._routing.choose([(str(key), tokens[key]) for key in question.keys])
        self._decisions_ns.append(time.perf_counter_ns() - began)
        engine = self._engines[name]
        length = sum(tokens[key] for key in question.keys)
        held = sum(tokens[key] for key in question.keys if key in engine.cache.chunks)
        work_ms = max(1.0, prefill_ms(self._costs, 0, length) - self._saved * held)
        self._routing.started(name, work_ms)
        engine.queue.append((question, work_ms))
        self._start_next(engine, now)

    def _start_next(self, engine: _Engine, now: float) -> None:
        if engine.running or not engine.queue:
            return
        engine.running = (question, work_ms) = engine.queue.popleft()
        tokens = self._tokens
        length = sum(tokens[key] for key in question.keys)
        cached, inserted, evicted = engine.cache.use(question.keys, tokens)
        cache = engine.cache

        def tell(_: float) -> None:
            if engine.cache is cache:  # else it was restarted
                self._map.insert(engine.name, map(str, inserted))
                self._map.evict(engine.name, map(str, evicted))

        if self._config.event_delay_ms:
            self._at(now + self._config.event_delay_ms, tell)
        else:
            tell(now)
        ms = prefill_ms(self._costs, cached, length - cached)
        engine.ran_until = now + ms

        def finish(end: float) -> None:
            if engine.cache is not cache:
                return
            engine.running = None
            self._routing.finished(engine.name, work_ms)
            if question.number >= self._config.warmup:
                engine.busy_ms += ms
                self._ttfts.append(end - question.arrival_ms)
                self._hit_tokens += cached
                self._all_tokens += length
            self._start_next(engine, end)

        self._at(now + ms, finish)

    def _stop_engine(self, now: float) -> None:
        """End an engine, send its questions to others, and start it again, empty, after a while."""
        running = [engine for engine in self._engines.values() if not engine.is_away]
        if len(running) < 2:
            return
        engine = running[self._rng.integers(len(running))]
        engine.is_away = True
        questions = [each for each, _ in ([engine.running] if engine.running else []) + list(engine.queue)]
        engine.cache, engine.running = LruCache(self._config.budget), None
        engine.queue.clear()
        self._routing.remove_engine(engine.name)

        def come_back(_: float) -> None:
            engine.is_away = False
            self._routing.add_engine(engine.name)

        self._at(now + self._config.restart_ms, come_back)
        for question in questions:
            self._send(question, now)


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
