"""Questions with the passages of one topic: popular documents, overlapping sets, an order that depends on the query."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.cache.workload import check_skew, zipf_exponent

CHUNKS_PER_DOCUMENT = 16
BATCH = 10_000  # questions
WORKLOADS = ("topics", "ordered", "independent")


@dataclass(frozen=True)
class ClusterWorkloadConfig:
    """`topics`: neighbouring chunks of one document in random order; `ordered`: in the document's order, which favours
    prefixes; `independent`: unrelated chunks, drawn by popularity, so that no engine holds a whole set.
    """

    chunks: int = 100_000
    passages: int = 4  # per question
    skew: float = 0.6  # fraction of the questions for the most popular 3 % of the documents
    tokens: tuple[int, int] = (128, 480)  # per chunk, uniform
    kind: str = "topics"

    def __post_init__(self) -> None:
        check_skew(self.skew)


def questions(config: ClusterWorkloadConfig, count: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Yield the chunk numbers of each question."""
    rng = np.random.default_rng(seed)
    num = config.chunks if config.kind == "independent" else max(2, config.chunks // CHUNKS_PER_DOCUMENT)
    shares = np.arange(1, num + 1) ** -zipf_exponent(num, config.skew)
    cumulative = np.cumsum(shares / shares.sum())
    names = rng.permutation(num)
    width = 1 if config.kind != "independent" else config.passages
    for begin in range(0, count, BATCH):
        size = min(BATCH, count - begin)
        drawn = names[np.minimum(np.searchsorted(cumulative, rng.random((size, width))), num - 1)]
        if width > 1:
            yield from (tuple(dict.fromkeys(row)) for row in drawn.tolist())
            continue
        # a window of passages + 2 neighbours at one of a few places of the document; all but two of them are retrieved
        window = config.passages + 2
        places = 4 * rng.integers(0, (CHUNKS_PER_DOCUMENT - window) // 4 + 1, (size, 1))
        picked = np.argsort(rng.random((size, window)), axis=1)[:, : config.passages]
        if config.kind == "ordered":
            picked = np.sort(picked, axis=1)
        yield from map(tuple, (CHUNKS_PER_DOCUMENT * drawn + places + picked).tolist())


def chunk_tokens(config: ClusterWorkloadConfig, seed: int) -> list[int]:
    """Return the tokens of each chunk."""
    low, high = config.tokens
    total = config.chunks + CHUNKS_PER_DOCUMENT * 2
    return np.random.default_rng(seed + 1).integers(low, high + 1, total).tolist()
