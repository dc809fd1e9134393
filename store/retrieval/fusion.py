"""Join several rankings into one by rank alone, since a cosine and a bm25 score have no common scale.

Source: Cormack, Clarke and Büttcher, Reciprocal Rank Fusion, SIGIR 2009; k = 60 as there.
"""

from collections.abc import Sequence

K = 60


def fuse(rankings: Sequence[Sequence[str]], k: int = K) -> list[tuple[str, float]]:
    """Return (item, score), best first: score = sum of 1 / (k + rank) over the rankings that hold it, ranks from 1.

    Equal scores keep the order in which the items first appear, the first ranking before the second.
    """
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + 1 / (k + rank)
    return sorted(scores.items(), key=lambda scored: -scored[1])
