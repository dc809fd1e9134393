"""What attention over a context says: which tokens are sinks, and which windows of 8 come first.

A sink draws attention whatever is asked: Xiao et al., arXiv:2309.17453. The first tokens of a prompt are the known
ones; they lie in the shared prefix, which is left out here. But a passage has sinks of its own. In the embedded model
a few words such as "the" get more than 50 times the median attention in the same nine of its thirty layers; what a
question is about rarely stands out so far in so many. That is the definition: a guess from one question's attention.
"""

from collections.abc import Sequence

import numpy as np

from engine.analysis.attention_profile import parts, window_starts

FAR = 50  # times the median attention of the passage's tokens
LAYERS = 0.25  # share of the layers in which a sink is that far above


def sinks(primary: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    """Return which tokens are sinks, [T] bool.

    primary  [L, T] attention of each layer of a full prefill
    lengths  tokens of each passage: T in sum

    A sink gets at least 50 times its passage's median attention in at least a quarter of the layers.
    """
    found = np.zeros(primary.shape[-1], dtype=bool)
    for part in parts(lengths):
        paid = primary[:, part]
        far = paid >= FAR * np.median(paid, axis=1, keepdims=True)
        found[part] = (far & (paid > 0)).mean(axis=0) >= LAYERS
    return found


def window_ranks(values: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    """Return the rank of each window by its mean value, [windows], 1 is the highest; of equals the earlier one.

    values   [T]
    lengths  tokens of each passage: T in sum
    """
    starts = window_starts(lengths)
    if not len(starts):
        return starts
    means = np.add.reduceat(values, starts) / np.diff([*starts, len(values)])
    ranks = np.empty(len(starts), dtype=int)
    ranks[np.argsort(-means, kind="stable")] = np.arange(1, len(starts) + 1)
    return ranks
