"""A question inspected: what both models look at, and what every method would recompute at every ratio.

All of it is plain numpy, computed once, so that a page can move its ratio slider without asking a model again.
`probe` computes it.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.analysis.attention_profile import BINS, AttentionProfile, parts, window_starts

PERCENTS = 101  # nominal ratios of the grid: 0, 1, ... 100 %
NEVER = 255  # the onset of a token that no ratio recomputes


@dataclass(frozen=True, eq=False)
class Selection:
    """What one method recomputes at each nominal ratio.

    onset      [T] uint8: the smallest ratio, in percent, at which a token is recomputed, or NEVER
    gaps       by percent: tokens left out there although a smaller ratio takes them. A passage's short last window
               may fit into what is left of a small budget and lose its place to a better window under a larger one
    has_ratio  whether the method has a ratio at all; without one it recomputes the same tokens at each
    """

    onset: np.ndarray
    gaps: dict[int, np.ndarray] = field(default_factory=dict)
    has_ratio: bool = True

    @classmethod
    def of(cls, taken: np.ndarray, has_ratio: bool = True) -> "Selection":
        """Return the selection that recomputes `taken` [101, T] bool, a row for each percent."""
        first = taken.argmax(axis=0)
        onset = np.where(taken.any(axis=0), first, NEVER).astype(np.uint8)
        missing = {percent: np.flatnonzero((onset <= percent) & ~row) for percent, row in enumerate(taken)}
        return cls(onset, {percent: slots for percent, slots in missing.items() if len(slots)}, has_ratio)

    def at(self, percent: int) -> np.ndarray:
        """Return which tokens are recomputed at a nominal ratio of `percent`, [T] bool."""
        taken = self.onset <= percent
        if percent in self.gaps:
            taken[self.gaps[percent]] = False
        return taken


@dataclass(frozen=True, eq=False)
class Excerpt:
    """One passage that was read. `spans` [tokens, 2]: the characters of `text` that each token stands for."""

    document: str
    page: int | None
    text: str
    spans: np.ndarray


@dataclass(frozen=True, eq=False)
class Inspection(AttentionProfile):
    """Looks, and what a page needs to draw them beside the passages.

    excerpts    the passages, in prompt order
    exact       how many passages, from the first, are exact as they stand: recomputing them would change nothing
    selections  by method; one that decides while it computes (CacheBlend) has none
    alike       [101] by method, and for 'auxiliary': Jaccard with the primary's last layer at each ratio, NaN where
                nothing is recomputed. A method's tokens are compared with as many of the oracle's, to the percent
    ranks       [2, windows]: rank of each window of 8 tokens for the auxiliary and for the primary's last layer,
                1 is the most looked at
    """

    question: str
    excerpts: tuple[Excerpt, ...]
    exact: int
    selections: dict[str, Selection]
    alike: dict[str, np.ndarray]
    ranks: np.ndarray

    @property
    def tokens(self) -> int:
        """TextTokenizer of all passages."""
        return len(self.auxiliary)

    @property
    def rank_correlation(self) -> float:
        """Spearman's: 1 where both models rank the windows alike, 0 where they have nothing to do with each other."""
        constant = self.ranks.shape[1] < 2
        return 0.0 if constant else float(np.corrcoef(self.ranks)[0, 1])

    @property
    def parts(self) -> list[slice]:
        """The tokens of each passage."""
        return parts(self.passages)

    @property
    def windows(self) -> np.ndarray:
        """The first token of each window of 8, as `ranks` has them."""
        return window_starts(self.passages)

    def as_dict(self, bins: int = BINS) -> dict[str, Any]:
        """Return what Looks does, the curves over the ratio in whole percent, ranks, and sinks by token number."""
        curves = {name: [None if np.isnan(y) else float(y) for y in curve] for name, curve in self.alike.items()}
        return super().as_dict(bins) | {
            "jaccard_over_ratio": curves,
            "window_ranks": self.ranks.tolist(),
            "rank_correlation": self.rank_correlation,
            "sinks": np.flatnonzero(self.sinks).tolist(),
        }


@dataclass(frozen=True)
class Step:
    """One step of an inspection: what is being done, in a few words; the last step holds what was found."""

    said: str
    found: Inspection | None = None
