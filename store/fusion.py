"""Fuse rankings: by scores those of one search, by ranks those of several, whose scores have no common scale.

Sources: convex combination of normalized scores, Bruch, Gai and Ingber, An Analysis of Fusion Functions for Hybrid
Retrieval, arXiv:2210.11934; reciprocal rank fusion, Cormack, Clarke and Büttcher, SIGIR 2009, with k = 60 as there.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
WORD_WEIGHT = 0.25  # of a BM25 score beside a cosine in standard deviations; chosen on questions about documents
GERMAN_WORD_WEIGHT = 0.5  # of one in a German question to an English embedding model, which hardly knows German
MIN_DEVIATION = 0.01  # of cosines; smaller ones are noise


def hybrid_scores(
    cosines: Mapping[str, float], word_scores: Mapping[str, float], word_weight: float
) -> dict[str, float]:
    """Return the score of each chunk, at least 0: its cosine above the lowest, in standard deviations, and BM25 score.

    Unlike ranks, scores tell how much better the best match is than the next. The deviation of the cosines differs
    between embedding models and questions. A chunk without a vector has the mean cosine.
    """
    values = np.fromiter(cosines.values(), np.float64, len(cosines)) if cosines else np.zeros(1)
    lowest, mean, deviation = float(values.min()), float(values.mean()), max(float(values.std()), MIN_DEVIATION)
    return {
        chunk: (cosines.get(chunk, mean) - lowest) / deviation + word_weight * word_scores.get(chunk, 0.0)
        for chunk in {**cosines, **word_scores}
    }


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
