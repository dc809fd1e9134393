"""Result of inspecting a question: both models' attention, and each method's token selection at every ratio.

Plain numpy, computed once by `inspection_runner`, so that the UI can move its ratio slider without running a model.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.analysis.attention_profile import MAX_BINS, AttentionProfile, passage_slices, window_starts

PERCENTS = 101  # nominal ratios of the grid: 0, 1, ... 100 %
NEVER = 255  # onset of a token that no ratio selects


@dataclass(frozen=True, eq=False)
class RatioSelection:
    """Tokens that one method recomputes at each nominal ratio.

    onset      [T] uint8: the smallest ratio, in percent, at which a token is selected, or NEVER
    gaps       by percent: tokens not selected there although a smaller ratio selects them. A passage's short last
               window may fit into the rest of a small budget and lose its place to a better window in a larger one
    has_ratio  False if the method selects the same tokens at every ratio
    """

    onset: np.ndarray
    gaps: dict[int, np.ndarray] = field(default_factory=dict)
    has_ratio: bool = True

    @classmethod
    def from_masks(cls, masks: np.ndarray, has_ratio: bool = True) -> "RatioSelection":
        """Encode the selection masks [101, T] bool, one row per percent."""
        onset = np.where(masks.any(axis=0), masks.argmax(axis=0), NEVER).astype(np.uint8)
        missing = {percent: np.flatnonzero((onset <= percent) & ~mask) for percent, mask in enumerate(masks)}
        return cls(onset, {percent: tokens for percent, tokens in missing.items() if len(tokens)}, has_ratio)

    def mask_at(self, percent: int) -> np.ndarray:
        """Return which tokens are recomputed at a nominal ratio of `percent`, [T] bool."""
        mask = self.onset <= percent
        if percent in self.gaps:
            mask[self.gaps[percent]] = False
        return mask


@dataclass(frozen=True, eq=False)
class InspectedPassage:
    """A passage of the prompt. `spans` [tokens, 2] are each token's characters (start, end) in `text`."""

    document: str
    page: int | None
    text: str
    spans: np.ndarray


@dataclass(frozen=True, eq=False)
class Inspection(AttentionProfile):
    """An attention profile with the passages, selections and curves that the Inspect page draws.

    passages            in prompt order
    num_exact_passages  leading passages whose cached KV is exact: recomputing them would change nothing
    selections          by method; methods that select during the forward pass (CacheBlend) have none
    agreement           by method, and for 'auxiliary': Jaccard at each ratio [101], NaN where nothing is recomputed.
                        The auxiliary's top tokens are compared with those of the primary's last layer; a method's
                        tokens with the oracle's at the same number of tokens, rounded to a percent
    window_ranks        [2, windows]: rank of each window of 8 tokens for the auxiliary and for the primary's last
                        layer; 1 gets the most attention
    """

    question: str
    passages: tuple[InspectedPassage, ...]
    num_exact_passages: int
    selections: dict[str, RatioSelection]
    agreement: dict[str, np.ndarray]
    window_ranks: np.ndarray

    @property
    def num_tokens(self) -> int:
        """Tokens of all passages."""
        return len(self.auxiliary)

    @property
    def rank_correlation(self) -> float:
        """Spearman's correlation of the window ranks: 1 for the same order, 0 for unrelated orders."""
        return float(np.corrcoef(self.window_ranks)[0, 1]) if self.window_ranks.shape[1] > 1 else 0.0

    @property
    def passage_slices(self) -> list[slice]:
        """The token range of each passage."""
        return passage_slices(self.passage_lengths)

    @property
    def window_starts(self) -> np.ndarray:
        """The first token of each window of `window_ranks`."""
        return window_starts(self.passage_lengths)

    def as_dict(self, bins: int = MAX_BINS) -> dict[str, Any]:
        """Return the profile's data with the curves over the ratio in percent, window ranks, and sinks by index."""
        curves = {name: [None if np.isnan(y) else float(y) for y in curve] for name, curve in self.agreement.items()}
        return super().as_dict(bins) | {
            "jaccard_over_ratio": curves,
            "window_ranks": self.window_ranks.tolist(),
            "rank_correlation": self.rank_correlation,
            "sinks": np.flatnonzero(self.sinks).tolist(),
        }


@dataclass(frozen=True)
class InspectionStep:
    """Progress of an inspection: the current step as a short message; the last step carries the result."""

    message: str
    inspection: Inspection | None = None
