"""Attention of the auxiliary model and of each primary layer over the same passages, for one question.

The primary's attention comes from a full prefill: the question's rows, averaged over heads and question tokens, without
the shared prefix. The auxiliary sees each passage alone, as in token selection. CacheClip's key observation
(arXiv:2510.10129): the auxiliary's last layer is closer to the primary's last layer than the first layers are.
Torch-free, so that the UI can import it; `inspection_runner` computes the arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_BINS = 256  # columns of an exported array
WINDOW = 8  # tokens that are recomputed, and therefore ranked, together


@dataclass(frozen=True, eq=False)
class AttentionProfile:
    """Attention over T context tokens and its agreement with the primary's last layer; L is the number of layers.

    auxiliary          [T]     attention of the auxiliary, sums to 1
    primary            [L, T]  attention of each primary layer, rows sum to 1
    kl_auxiliary       KL(primary's last layer || auxiliary), nats
    kl_layers          [L]     KL(primary's last layer || layer), nats
    jaccard_auxiliary  Jaccard of the top ratio x T tokens with those of the primary's last layer
    jaccard_layers     [L]     the same for each layer
    oracle_overlap     by method: Jaccard of its recomputed tokens with the oracle's
    passage_lengths    tokens of each passage in prompt order, T in total
    sinks              [T]     bool, see `find_sinks`; excluded from KL and Jaccard
    """

    auxiliary: np.ndarray
    primary: np.ndarray
    kl_auxiliary: float
    kl_layers: np.ndarray
    jaccard_auxiliary: float
    jaccard_layers: np.ndarray
    oracle_overlap: dict[str, float]
    ratio: float
    passage_lengths: tuple[int, ...]
    sinks: np.ndarray

    def as_dict(self, bins: int = MAX_BINS) -> dict[str, Any]:
        """Return plain lists; attention is summed into at most `bins` columns."""
        return {
            "ratio": self.ratio,
            "passages": list(self.passage_lengths),
            "auxiliary": sum_into_bins(self.auxiliary, bins).tolist(),
            "primary": sum_into_bins(self.primary, bins).tolist(),
            "kl_auxiliary": self.kl_auxiliary,
            "kl_layers": self.kl_layers.tolist(),
            "jaccard_auxiliary": self.jaccard_auxiliary,
            "jaccard_layers": self.jaccard_layers.tolist(),
            "overlap": self.oracle_overlap,
        }


def sum_into_bins(values: np.ndarray, bins: int) -> np.ndarray:
    """Return sums of adjacent columns of [..., T], [..., min(T, bins)]."""
    if values.shape[-1] <= bins:
        return values
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
