"""Time of the knowledge tree's operations at different sizes, without KV."""

import statistics
import time
from typing import Any

import numpy as np

from bench.cache.simulate import SizeStore
from engine.cache.knowledge_tree import KnowledgeTree
from engine.cache.tier import Record, Tier

REPEATS = 2000


def measure_operations(nodes: int) -> list[dict[str, Any]]:
    """Return a row per operation on a full tree of `nodes` nodes, half of them at depth 2."""
    rng = np.random.default_rng(0)
    tree: KnowledgeTree[int] = KnowledgeTree([Tier("host", nodes, SizeStore())])
    for number in range(nodes // 2):
        _insert(tree, str(number), None, float(rng.random()))
        _insert(tree, f"{number}/x", str(number), float(rng.random()))
    times: dict[str, list[float]] = {"lookup": [], "use": [], "insert and evict": [], "delete": []}
    for repeat in range(REPEATS):
        root = str(rng.integers(nodes // 2))
        keys = [root, f"{root}/x"]
        with _timed(times["lookup"]):
            matched = tree.match_prefix(keys)
        with _timed(times["use"]):
            tree.record_hit(matched)
        with _timed(times["insert and evict"]):
            _insert(tree, f"new {repeat}", None, float(rng.random()))
        with _timed(times["delete"]):
            tree.delete(f"new {repeat}")
    return [
        {
            "show": "operations",
            "operation": name,
            "nodes": nodes,
            "median_us": statistics.median(durations),
            "p99_us": float(np.percentile(durations, 99)),
            "n": len(durations),
        }
        for name, durations in times.items()
    ]


def _insert(tree: KnowledgeTree[int], key: str, parent: str | None, cost: float) -> None:
    tree.insert(key, Record(key.rpartition("/")[2] if parent else key, parent, 1), 1, cost)


class _timed:
    def __init__(self, into: list[float]) -> None:
        self._into = into

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._into.append(1e6 * (time.perf_counter() - self._began))
