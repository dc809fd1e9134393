"""The knowledge tree without KV: eviction policies and a loaded queue at the paper's scale, and the tree's own time.

Each simulated question takes T(cached, computed), the cost model measured on this machine. There is one memory tier.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bench.cache.workload import RequestStream, Served
from engine.cache.cost_model import CostModel
from engine.cache.knowledge_tree import KnowledgeTree
from engine.cache.tier import Record, Tier
from engine.scheduler.scheduler import WaitingRequest, pop_next

NO_CACHE = "none"  # no KV is kept
PREFIX_TOKENS, QUESTION_TOKENS = 48, 32  # tokens


class SizeStore:
    """A store without content: a KV is its number of bytes."""

    def size_of(self, kv: int) -> int:
        return kv

    def can_accept(self) -> bool:
        return True

    def put(self, key: str, kv: int, record: Record) -> None:
        pass

    def get(self, key: str) -> int:
        raise KeyError(key)

    def delete(self, key: str) -> None:
        pass


class SimulatedCache:
    """Exact-prefix reuse with one eviction policy and `budget_bytes` of memory; a token's KV has `token_bytes`."""

    def __init__(
        self, policy: str, budget_bytes: int, token_bytes: int, costs: CostModel, stream: RequestStream
    ) -> None:
        self._stores_kv = policy != NO_CACHE
        self._token_bytes = token_bytes
        self._costs = costs
        self._tokens = stream.tokens
        tier = Tier("host", budget_bytes, SizeStore())
        self.tree = KnowledgeTree([tier], policy if self._stores_kv else "pgdsf")

    def lengths(self, documents: tuple[int, ...]) -> tuple[int, int]:
        """Return a question's cached tokens, and the tokens to compute (the question included)."""
        cached = sum(node.tokens for node in self.tree.match_prefix(_path_keys(documents)))
        return cached, int(sum(self._tokens[one] for one in documents)) - cached + QUESTION_TOKENS

    def serve(self, documents: tuple[int, ...]) -> Served:
        cached, compute = self.lengths(documents)
        ms = self._costs.estimate_ms(PREFIX_TOKENS + cached, compute)
        if self._stores_kv:
            self._insert(documents, self._costs.ms_per_token(PREFIX_TOKENS + cached, compute))
        return Served(cached, cached + compute - QUESTION_TOKENS, ms, ms, compute == QUESTION_TOKENS)

    def _insert(self, documents: tuple[int, ...], ms_per_token: float) -> None:
        keys = _path_keys(documents)
        with self.tree.pinned_while(keys) as nodes:
            self.tree.record_hit(nodes)
            for number in range(len(nodes), len(keys)):
                tokens = int(self._tokens[documents[number]])
                parent = keys[number - 1] if number else None
                record = Record(str(documents[number]), parent, tokens)
                if self.tree.insert(keys[number], record, tokens * self._token_bytes, ms_per_token) is None:
                    return


def _path_keys(documents: tuple[int, ...]) -> list[str]:
    names = [str(one) for one in documents]
    return ["/".join(names[: end + 1]) for end in range(len(names))]


def simulate(cache: SimulatedCache, stream: RequestStream, num_warmup: int, num_questions: int) -> list[Served]:
    """Serve questions one after the other; return the result of each after the first `num_warmup`."""
    return [cache.serve(documents) for documents in stream.questions(num_warmup + num_questions)][num_warmup:]


@dataclass(frozen=True, slots=True)
class QueueResult:
    """Result of a queue; a question's TTFT includes waiting."""

    served: list[Served]  # in this order
    max_skips: int  # largest number of times that one request was skipped
    total_ms: float  # from the first arrival to the last first token


def simulate_queue(
    cache: SimulatedCache, stream: RequestStream, questions: int, gap_ms: float, window: int, seed: int
) -> QueueResult:
    """Serve requests that arrive `gap_ms` apart on average (Poisson); none is skipped more than `window` times.

    The rule is the engine's: the largest cached fraction first. A window of 0 is first come, first served.
    """
    arrivals = np.cumsum(np.random.default_rng(seed).exponential(gap_ms, questions))
    requests = list(stream.questions(questions))
    numbers: dict[WaitingRequest, int] = {}
    waiting: list[WaitingRequest] = []
    now, arrived, max_skips = 0.0, 0, 0
    results = []
    while arrived < questions or waiting:
        now = now if waiting else max(now, arrivals[arrived])
        while arrived < questions and arrivals[arrived] <= now:
            waiting.append(WaitingRequest(partial(cache.lengths, requests[arrived])))
            numbers[waiting[-1]] = arrived
            arrived += 1
        request = pop_next(waiting, window)
        number = numbers[request]
        served = cache.serve(requests[number])
        now += served.ttft_ms
        results.append(replace(served, ttft_ms=now - arrivals[number]))
        max_skips = max(max_skips, request.times_skipped)
    return QueueResult(results, max_skips, now - float(arrivals[0]))


def measure_operations(nodes: int) -> list[dict[str, Any]]:
    """Return a row per operation on a full tree of `nodes` nodes, half of them at depth 2."""
    rng = np.random.default_rng(0)
    tree: KnowledgeTree[int] = KnowledgeTree([Tier("host", nodes, SizeStore())])

    def insert(key: str, parent: str | None = None) -> None:
        tree.insert(key, Record(key.rpartition("/")[2], parent, 1), 1, float(rng.random()))

    for number in range(nodes // 2):
        insert(str(number))
        insert(f"{number}/x", str(number))
    durations_us: dict[str, list[float]] = {}

    def timed(operation: str, run: Callable[..., Any], *arguments: Any) -> Any:
        began = time.perf_counter()
        result = run(*arguments)
        durations_us.setdefault(operation, []).append(1e6 * (time.perf_counter() - began))
        return result

    for repeat in range(2000):
        root = str(rng.integers(nodes // 2))
        matched = timed("lookup", tree.match_prefix, [root, f"{root}/x"])
        timed("use", tree.record_hit, matched)
        timed("insert and evict", insert, f"new {repeat}")
        timed("delete", tree.delete, f"new {repeat}")
    return [
        {
            "show": "operations",
            "operation": operation,
            "nodes": nodes,
            "median_us": float(np.median(values)),
            "p99_us": float(np.percentile(values, 99)),
            "n": len(values),
        }
        for operation, values in durations_us.items()
    ]
