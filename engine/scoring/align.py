"""Carry scores from one tokenizer's tokens to another's, by the characters they share."""

import numpy as np


def align(scores: np.ndarray, spans: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Return for each target token the best score of the source tokens that share a character with it.

    scores  [A]     of the source tokens
    spans   [A, 2]  (start, end) characters of the source tokens, both columns ascending
    onto    [B, 2]  of the target tokens, both columns ascending; same text

    The best, not the mean: whatever is selected in the source stays selected, so every selected character is covered.
    A target token that shares no character (a special token) scores 0.
    """
    if len(scores) != len(spans):
        raise ValueError(f"{len(scores)} scores for {len(spans)} tokens")
    carried = np.zeros(len(onto), dtype=scores.dtype)
    if not len(scores) or not len(onto):
        return carried
    first = np.searchsorted(spans[:, 1], onto[:, 0], side="right")
    last = np.searchsorted(spans[:, 0], onto[:, 1], side="left")
    touched = (last > first) & (onto[:, 1] > onto[:, 0])
    for target in np.flatnonzero(touched):
        carried[target] = scores[first[target] : last[target]].max()
    return carried
