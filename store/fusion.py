"""Reciprocal rank fusion: merge rankings by rank, because cosine and BM25 scores have no common scale.

Source: Cormack, Clarke and Büttcher, Reciprocal Rank Fusion, SIGIR 2009; k = 60 as in the paper.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def rrf(
    rankings: Iterable[Iterable[Item]], key: Callable[[Item], Hashable], k: int = 60
) -> list[tuple[list[Item], float]]:
    """Return (all items with one key, their score), best first; score = sum of 1 / (k + rank), ranks from 1.

    Equal scores keep the order of first appearance, the first ranking before the second.
    """
    groups: dict[Hashable, list[Item]] = {}
    scores: dict[Hashable, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            groups.setdefault(key(item), []).append(item)
            scores[key(item)] = scores.get(key(item), 0.0) + 1 / (k + rank)
    return [(groups[name], score) for name, score in sorted(scores.items(), key=lambda scored: -scored[1])]
