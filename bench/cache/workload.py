"""Which passages questions ask for: Zipf popularity, as the RAGCache paper (arXiv:2404.12457, figure 5) measured it.

There the 3 % of the documents that are asked for most stand in 60 % of the questions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

POPULAR_FRACTION = 0.03  # of the documents


@dataclass(frozen=True)
class RequestStreamConfig:
    """documents  in the library
    passages   of one question, drawn by popularity, all different, in the order drawn
    skew       share of all draws that goes to the 3 % of documents that are asked for most; 0.03 is uniform
    tokens     least and most of a document, uniform
    drift      questions within which ten times a tenth of the documents, drawn anew each time, change places in
               popularity: about two thirds of all; 0 is never
    """

    documents: int = 100_000
    passages: int = 2
    skew: float = 0.6
    tokens: tuple[int, int] = (128, 1024)
    drift: int = 0

    def __post_init__(self) -> None:
        if not POPULAR_FRACTION <= self.skew < 1:
            raise ValueError(f"the skew must be at least {POPULAR_FRACTION:g} and below 1, got {self.skew:g}")
        if not 1 <= self.passages <= self.documents:
            raise ValueError(f"{self.passages} different passages cannot be drawn from {self.documents} documents")


class RequestStream:
    """An endless, seeded stream of questions. `tokens` has the length of each document."""

    def __init__(self, config: RequestStreamConfig, seed: int) -> None:
        self._config, self._draw, self._asked = config, np.random.default_rng(seed), 0
        self.exponent = zipf_exponent(config.documents, config.skew)
        self.tokens = self._draw.integers(config.tokens[0], config.tokens[1] + 1, config.documents)
        shares = np.arange(1, config.documents + 1) ** -self.exponent
        self._cumulative = np.cumsum(shares / shares.sum())
        self._names = self._draw.permutation(config.documents)  # popular ones are neither longer nor shorter

    def questions(self, count: int) -> Iterator[tuple[int, ...]]:
        """Yield the documents of each of `count` questions."""
        for _ in range(count):
            self._asked += 1
            if self._config.drift and self._asked % max(1, self._config.drift // 10) == 0:
                self._change()
            chosen: dict[int, None] = {}
            while len(chosen) < self._config.passages:
                rank = int(np.searchsorted(self._cumulative, self._draw.random()))
                chosen[int(self._names[min(rank, self._config.documents - 1)])] = None
            yield tuple(chosen)

    def _change(self) -> None:
        """Let a tenth of the documents change places in popularity."""
        some = self._draw.choice(self._config.documents, max(2, self._config.documents // 10), replace=False)
        self._names[some] = self._names[self._draw.permutation(some)]


def zipf_exponent(documents: int, skew: float) -> float:
    """Return the Zipf exponent at which the most popular 3 % of the documents get a share of `skew` of all draws."""
    low, high, top = 0.0, 4.0, max(1, round(POPULAR_FRACTION * documents))
    ranks = np.arange(1, documents + 1, dtype=float)
    for _ in range(50):
        middle = (low + high) / 2
        shares = ranks**-middle
        low, high = (low, middle) if shares[:top].sum() / shares.sum() > skew else (middle, high)
    return (low + high) / 2
