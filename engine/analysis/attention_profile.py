"""How alike the auxiliary and each layer of the primary look at the same passages, for one question.

The primary's attention is that of a full prefill: the question's rows, mean over heads and question tokens, the shared
prefix left out. The auxiliary sees each passage on its own, as it does when it selects. CacheClip's key observation
(arXiv:2510.10129): the auxiliary's last layer is nearer to the primary's last layer than the primary's first are.
No torch here: a page may read this. `probe` computes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

BINS = 256  # columns of an array that a page draws
WINDOW = 8  # tokens that are ranked together, as they are recomputed together


@dataclass(frozen=True, eq=False)
class AttentionProfile:
    """Every array is plain numpy; `as_dict` makes them small enough for a page.

    auxiliary          [T]     attention over the context tokens, sums to 1
    primary            [L, T]  of each layer
    kl_auxiliary       KL(primary's last layer || auxiliary), nats
    kl_layers          [L]     KL(primary's last layer || layer)
    jaccard_auxiliary  of the top ratio x T tokens, with the primary's last layer
    jaccard_layers     [L]
    overlap            of each method's recomputed tokens with the oracle's, Jaccard
    passages           tokens of each passage, in prompt order: T in sum
    sinks              [T] bool, see `attention.sinks`; KL and Jaccard of attention leave them out
    """

    auxiliary: np.ndarray
    primary: np.ndarray
    kl_auxiliary: float
    kl_layers: np.ndarray
    jaccard_auxiliary: float
    jaccard_layers: np.ndarray
    overlap: dict[str, float]
    ratio: float
    passages: tuple[int, ...]
    sinks: np.ndarray

    def as_dict(self, bins: int = BINS) -> dict[str, Any]:
        """Return plain lists; tokens are added up into at most `bins` columns."""
        return {
            "ratio": self.ratio,
            "passages": list(self.passages),
            "auxiliary": binned(self.auxiliary, bins).tolist(),
            "primary": binned(self.primary, bins).tolist(),
            "kl_auxiliary": self.kl_auxiliary,
            "kl_layers": self.kl_layers.tolist(),
            "jaccard_auxiliary": self.jaccard_auxiliary,
            "jaccard_layers": self.jaccard_layers.tolist(),
            "overlap": self.overlap,
        }


def binned(values: np.ndarray, bins: int) -> np.ndarray:
    """Return [..., at most `bins`] sums of neighbouring columns of [..., T]."""
    if values.shape[-1] <= bins:
        return values
    return np.add.reduceat(values, edges(values.shape[-1], bins), axis=-1)


def edges(tokens: int, bins: int) -> np.ndarray:
    """Return the first token of each bin, [at most `bins`]."""
    return np.linspace(0, tokens, min(bins, tokens) + 1).astype(int)[:-1]


def parts(lengths: Sequence[int]) -> list[slice]:
    """Return the tokens of each passage, of so many tokens each."""
    ends = np.cumsum(lengths, dtype=int).tolist()
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]


def window_starts(lengths: Sequence[int]) -> np.ndarray:
    """Return the first token of each window of 8; windows start at a passage's first token and never cross its end."""
    return np.array([at for part in parts(lengths) for at in range(part.start, part.stop, WINDOW)], dtype=int)
