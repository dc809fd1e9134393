"""Attention sinks, and the ranking of windows of 8 tokens by attention.

A sink attracts attention whatever the question is (Xiao et al., arXiv:2309.17453). The best-known sinks, the first
tokens of a prompt, belong to the shared prefix, which is excluded here; but passages have sinks of their own. In the
bundled model a few words such as "the" get more than 50 times the median attention in the same nine of thirty layers.
Tokens that answer the question rarely exceed that factor in so many layers, so the definition below is a heuristic.
"""

from collections.abc import Sequence

import numpy as np

from engine.analysis.attention_profile import passage_slices, window_starts

MIN_MEDIAN_FACTOR = 50  # a sink's attention, as a multiple of its passage's median
MIN_LAYER_FRACTION = 0.25  # fraction of the layers in which a token must exceed it


def find_sinks(primary: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    """Return which tokens are sinks, [T] bool.

    A sink gets at least 50 times its passage's median attention in at least a quarter of the layers.

    primary  [L, T] attention of each layer in a full prefill
    lengths  tokens of each passage, T in total
    """
    is_sink = np.zeros(primary.shape[-1], dtype=bool)
    for part in passage_slices(lengths):
        attention = primary[:, part]
        exceeds = attention >= MIN_MEDIAN_FACTOR * np.median(attention, axis=1, keepdims=True)
        is_sink[part] = (exceeds & (attention > 0)).mean(axis=0) >= MIN_LAYER_FRACTION
    return is_sink


def window_ranks(values: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    """Return the rank of each window by its mean value, [windows]: 1 is the highest, ties go to the earlier window.

    values   [T]
    lengths  tokens of each passage, T in total
    """
    starts = window_starts(lengths)
    if not len(starts):
        return starts
    means = np.add.reduceat(values, starts) / np.diff([*starts, len(values)])
    ranks = np.empty(len(starts), dtype=int)
    ranks[np.argsort(-means, kind="stable")] = np.arange(1, len(starts) + 1)
    return ranks
