"""A stream of requested passages with Zipf popularity, as RAGCache measured it (arXiv:2404.12457, figure 5).

There the most popular 3 % of the documents get 60 % of the requests.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

POPULAR_FRACTION = 0.03  # of the documents


@dataclass(frozen=True)
class RequestStreamConfig:
    documents: int = 100_000
    passages: int = 2  # per question, drawn by popularity, distinct, in the order drawn
    skew: float = 0.6  # fraction of the draws that goes to the most popular 3 % of the documents; 0.03 is uniform
    tokens: tuple[int, int] = (128, 1024)  # minimum and maximum length of a document, uniform
    drift: int = 0  # questions within which ten random tenths of the documents, about two thirds, exchange popularity

    def __post_init__(self) -> None:
        check_skew(self.skew)
        if not 1 <= self.passages <= self.documents:
            raise ValueError(f"{self.passages} different passages cannot be drawn from {self.documents} documents")


class RequestStream:
    """An endless, seeded stream of questions. `tokens` holds the length of each document."""

    def __init__(self, config: RequestStreamConfig, seed: int) -> None:
        self._config = config
        self._rng = np.random.default_rng(seed)
        self._num_questions = 0
        self.tokens = self._rng.integers(config.tokens[0], config.tokens[1] + 1, config.documents)
        shares = np.arange(1, config.documents + 1) ** -zipf_exponent(config.documents, config.skew)
        self._cumulative = np.cumsum(shares / shares.sum())
        self._names = self._rng.permutation(config.documents)  # popularity is independent of length

    def questions(self, count: int) -> Iterator[tuple[int, ...]]:
        config = self._config
        for _ in range(count):
            self._num_questions += 1
            if config.drift and self._num_questions % max(1, config.drift // 10) == 0:  # a tenth exchanges popularity
                chosen = self._rng.choice(config.documents, max(2, config.documents // 10), replace=False)
                self._names[chosen] = self._names[self._rng.permutation(chosen)]
            documents: dict[int, None] = {}
            while len(documents) < config.passages:
                rank = int(np.searchsorted(self._cumulative, self._rng.random()))
                documents[int(self._names[min(rank, config.documents - 1)])] = None
            yield tuple(documents)


def check_skew(skew: float) -> None:
    """Raise ValueError if the most popular 3 % of the documents cannot get this fraction of the draws."""
    if not POPULAR_FRACTION <= skew < 1:
        raise ValueError(f"the skew must be at least {POPULAR_FRACTION:g} and below 1, got {skew:g}")


def zipf_exponent(documents: int, skew: float) -> float:
    """Return the Zipf exponent at which the most popular 3 % of the documents get a fraction `skew` of the draws."""
    low, high, top = 0.0, 4.0, max(1, round(POPULAR_FRACTION * documents))
    ranks = np.arange(1, documents + 1, dtype=float)
    for _ in range(50):
        middle = (low + high) / 2
        shares = ranks**-middle
        low, high = (low, middle) if shares[:top].sum() / shares.sum() > skew else (middle, high)
    return (low + high) / 2


@dataclass(frozen=True, slots=True)
class Served:
    hit_tokens: int  # cached
    tokens: int  # of all its passages
    ttft_ms: float
    busy_ms: float  # includes the work after the first token
    is_full_hit: bool  # all passages were found as one exact path
