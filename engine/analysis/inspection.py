"""Result of inspecting a question: both models' attention, and each method's token selection at every ratio.

CacheClip's key observation (arXiv:2510.10129): the auxiliary's last layer is closer to the primary's last layer than
the first layers are. Plain numpy, so that the UI can move its ratio slider without running a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_BINS = 256  # columns of an exported array
WINDOW = 8  # tokens that are recomputed, and therefore ranked, together
PERCENTS = 101  # nominal ratios of the grid: 0, 1, ... 100 %
MIN_MEDIAN_FACTOR = 50  # a sink's attention, as a multiple of its passage's median
MIN_LAYER_FRACTION = 0.25  # fraction of the layers in which a token must exceed it


@dataclass(frozen=True, eq=False)
class AttentionProfile:
    """Attention over T context tokens and its agreement with the primary's last layer; L is the number of layers.

    The question's mean over heads and rows: the primary's in a full prefill, the auxiliary's over each passage alone.
    KL is in nats, from the primary's last layer. Jaccard compares the top ratio x T tokens.
    """

    auxiliary: np.ndarray  # [T] attention of the auxiliary, sums to 1
    primary: np.ndarray  # [L, T] attention of each primary layer, rows sum to 1
    kl_auxiliary: float
    kl_layers: np.ndarray  # [L]
    jaccard_auxiliary: float
    jaccard_layers: np.ndarray  # [L]
    oracle_overlap: dict[str, float]  # by method: Jaccard of its recomputed tokens with the oracle's
    ratio: float
    passage_lengths: tuple[int, ...]  # tokens of each passage in prompt order, T in total
    sinks: np.ndarray  # [T] bool, see `find_sinks`; excluded from KL and Jaccard

    def as_dict(self) -> dict[str, Any]:
        """Return plain lists; attention is summed into at most `MAX_BINS` columns."""
        return {
            "ratio": self.ratio,
            "passages": list(self.passage_lengths),
            "auxiliary": sum_into_bins(self.auxiliary, MAX_BINS).tolist(),
            "primary": sum_into_bins(self.primary, MAX_BINS).tolist(),
            "kl_auxiliary": self.kl_auxiliary,
            "kl_layers": self.kl_layers.tolist(),
            "jaccard_auxiliary": self.jaccard_auxiliary,
            "jaccard_layers": self.jaccard_layers.tolist(),
            "overlap": self.oracle_overlap,
        }


@dataclass(frozen=True, eq=False)
class RatioSelection:
    """Tokens that one method recomputes at each nominal ratio, packed into bits."""

    packed: np.ndarray  # [101, T / 8] uint8, by percent; one row if the method selects the same tokens at every ratio
    num_tokens: int

    @classmethod
    def from_masks(cls, masks: np.ndarray) -> "RatioSelection":
        """Pack the selection masks [101, T] bool, one row per percent, or [1, T] for all of them."""
        return cls(np.packbits(masks, axis=1), masks.shape[1])

    @property
    def has_ratio(self) -> bool:
        return len(self.packed) > 1

    def mask_at(self, percent: int) -> np.ndarray:
        """Return which tokens are recomputed at a nominal ratio of `percent`, [T] bool."""
        row = self.packed[percent if self.has_ratio else 0]
        return np.unpackbits(row, count=self.num_tokens).astype(bool)


@dataclass(frozen=True, eq=False)
class InspectedPassage:
    document: str
    page: int | None
    text: str
    spans: np.ndarray  # [tokens, 2] each token's characters (start, end) in `text`


@dataclass(frozen=True, eq=False)
class Inspection(AttentionProfile):
    """An attention profile with the passages, selections and curves that the Lab draws."""

    question: str
    passages: tuple[InspectedPassage, ...]  # in prompt order
    num_exact_passages: int  # leading passages whose cached KV is exact: recomputing them would change nothing
    selections: dict[str, RatioSelection]  # by method, but methods that select during the forward pass have none
    # By method, and for "auxiliary": Jaccard at each ratio [101], NaN where nothing is recomputed. The auxiliary's top
    # tokens are compared with those of the last layer; a method's tokens with as many of the oracle's.
    agreement: dict[str, np.ndarray]
    window_ranks: np.ndarray  # [2, windows] `window_ranks` for the auxiliary and for the primary's last layer

    @property
    def num_tokens(self) -> int:
        return len(self.auxiliary)

    @property
    def rank_correlation(self) -> float:
        """Spearman's correlation of the window ranks: 1 for the same order, 0 for unrelated orders."""
        return float(np.corrcoef(self.window_ranks)[0, 1]) if self.window_ranks.shape[1] > 1 else 0.0

    @property
    def passage_slices(self) -> list[slice]:
        return passage_slices(self.passage_lengths)

    @property
    def window_starts(self) -> np.ndarray:
        return window_starts(self.passage_lengths)

    def as_dict(self) -> dict[str, Any]:
        """Return the profile's data with the curves over the ratio in percent, window ranks, and sinks by index."""
        curves = {name: [None if np.isnan(y) else float(y) for y in curve] for name, curve in self.agreement.items()}
        return super().as_dict() | {
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


def sum_into_bins(values: np.ndarray, bins: int) -> np.ndarray:
    """Return sums of adjacent columns of [..., T], [..., min(T, bins)]."""
    return np.add.reduceat(values, bin_starts(values.shape[-1], bins), axis=-1)


def bin_starts(tokens: int, bins: int) -> np.ndarray:
    """Return the first token of each bin, [min(tokens, bins)]."""
    return np.linspace(0, tokens, min(bins, tokens) + 1).astype(int)[:-1]


def passage_slices(lengths: Sequence[int]) -> list[slice]:
    """Return the token range of each passage, given the passages' lengths in tokens."""
    ends = np.cumsum(lengths, dtype=int).tolist()
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]


def window_starts(lengths: Sequence[int]) -> np.ndarray:
    """Return the first token of each window of 8; windows start with a passage and never cross its end."""
    return np.array([at for part in passage_slices(lengths) for at in range(part.start, part.stop, WINDOW)], dtype=int)


def window_ranks(values: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    """Return the rank of each window by its mean of `values` [T]: 1 is the highest, ties go to the earlier window."""
    starts = window_starts(lengths)
    means = np.add.reduceat(values, starts) / np.diff([*starts, len(values)])
    ranks = np.empty(len(starts), dtype=int)
    ranks[np.argsort(-means, kind="stable")] = np.arange(1, len(starts) + 1)
    return ranks


def find_sinks(primary: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    """Return which tokens are sinks, [T] bool, given the attention of each layer in a full prefill, [L, T].

    A sink attracts attention whatever the question is (arXiv:2309.17453): at least 50 times its passage's median in a
    quarter of the layers. In the bundled model, words such as "the" do so in nine of thirty layers, tokens that answer
    rarely do.
    """
    is_sink = np.zeros(primary.shape[-1], dtype=bool)
    for part in passage_slices(lengths):
        attention = primary[:, part]
        exceeds = attention >= MIN_MEDIAN_FACTOR * np.median(attention, axis=1, keepdims=True)
        is_sink[part] = (exceeds & (attention > 0)).mean(axis=0) >= MIN_LAYER_FRACTION
    return is_sink
