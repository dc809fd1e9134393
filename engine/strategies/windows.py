"""Group token scores into windows: 8 adjacent tokens of one chunk, recomputed together or not at all.

Recomputing half of a number can change the answer: CacheBlend answers 566362 for 5663623. Source: CacheClip
(arXiv:2510.10129); v1 (2025) uses tumbling windows, v2 (2026) sliding windows.
"""

import math

import torch
from torch import Tensor

WINDOW_TOKENS = 8
MIN_CANDIDATES = 5  # of a full window


def tumbling_windows(scores: Tensor, lengths: list[int], ratio: float) -> Tensor:
    """Return the ascending token indices of all windows with at least 5 of the top ratio x tokens (v1).

    scores [sum of lengths]: higher is more worth recomputing. Windows start at a chunk's first token and never cross
    its end; a short last one needs the same fraction of candidates. Isolated candidates are dropped.
    """
    window_of, sizes = _split_windows(lengths)
    counts = window_of[top_tokens(scores, ratio)].bincount(minlength=len(sizes))
    keep = WINDOW_TOKENS * counts >= MIN_CANDIDATES * sizes
    return keep[window_of].nonzero()[:, 0]


def sliding_windows(scores: Tensor, lengths: list[int], ratio: float) -> Tensor:
    """Return the ascending indices of all tokens in any 8 adjacent tokens with at least 5 candidates (v2).

    Arguments as for `tumbling_windows`. A chunk shorter than 8 tokens is one window.
    """
    candidates = torch.zeros(len(scores), dtype=torch.int64)
    candidates[top_tokens(scores, ratio)] = 1
    keep = torch.zeros(len(scores), dtype=torch.bool)
    start = 0
    for length in lengths:
        size = min(WINDOW_TOKENS, length)
        windows = candidates[start : start + length].unfold(0, size, 1)  # [length - size + 1, size]
        firsts = start + (WINDOW_TOKENS * windows.sum(-1) >= MIN_CANDIDATES * size).nonzero()  # [kept windows, 1]
        keep[(firsts + torch.arange(size)).flatten()] = True
        start += length
    return keep.nonzero()[:, 0]


def windows_within_budget(scores: Tensor, lengths: list[int], ratio: float, num_exact_chunks: int = 0) -> Tensor:
    """Return the ascending token indices of the windows with the best mean scores within floor(ratio x tokens).

    Other arguments as for `tumbling_windows`. A window that exceeds the budget is skipped, never cut. The first
    `num_exact_chunks` need no recomputation; they are selected only at a ratio of 1.
    """
    window_of, sizes = _split_windows(lengths)
    means = torch.zeros(len(sizes)).index_add_(0, window_of, scores.float()) / sizes
    budget = token_budget(ratio, len(scores))
    keep = torch.zeros(len(sizes), dtype=torch.bool)
    num_exact_windows = len(_split_windows(lengths[:num_exact_chunks])[1])
    tokens = sizes.tolist()
    for window in sorted(range(num_exact_windows, len(sizes)), key=means.neg().tolist().__getitem__):
        if tokens[window] <= budget:
            keep[window] = True
            budget -= tokens[window]
    keep[:num_exact_windows] = ratio == 1
    return keep[window_of].nonzero()[:, 0]


def top_tokens(scores: Tensor, ratio: float, num_exact_tokens: int = 0) -> Tensor:
    """Return the ascending indices of the top floor(ratio x tokens) tokens.

    The first `num_exact_tokens` need no recomputation; they are selected only at a ratio of 1.
    """
    start = 0 if ratio == 1 else num_exact_tokens
    return start + top_k(scores[start:], token_budget(ratio, len(scores)))


def top_k(scores: Tensor, count: int) -> Tensor:
    """Return the ascending indices of the `count` largest scores; ties go to the earlier token."""
    return scores.argsort(descending=True, stable=True)[:count].sort().values


def token_budget(ratio: float, tokens: int) -> int:
    """Return floor(ratio x tokens). Raises ValueError for a ratio outside 0 to 1."""
    if not 0 <= ratio <= 1:
        raise ValueError(f"ratio must lie between 0 and 1, got {ratio}")
    return math.floor(ratio * tokens + 1e-9)  # 0.29 * 100 is 28.999... in binary


def _split_windows(lengths: list[int]) -> tuple[Tensor, Tensor]:
    """Return the window index of each token [T] and the size of each window [W]."""
    sizes = torch.tensor(
        [min(WINDOW_TOKENS, length - start) for length in lengths for start in range(0, length, WINDOW_TOKENS)],
        dtype=torch.int64,
    )
    return torch.arange(len(sizes)).repeat_interleave(sizes), sizes
