"""From a score per token to whole windows, so that recomputed tokens keep their neighbours.

Half a number recomputed can be answered wrong: CacheBlend gave 566362 where 5663623 stands. A window is 8 neighbouring
tokens of one chunk, recomputed together or not at all.
Source: CacheClip, arXiv:2510.10129, grouping; v1 (2025) tumbling windows, v2 (2026) sliding windows.
"""

import math

import torch
from torch import Tensor

WINDOW = 8
NEEDED = 5  # candidates that make a window


def tumbling_windows(scores: Tensor, lengths: list[int], ratio: float) -> Tensor:
    """Return the ascending indices of all windows with at least 5 candidates (v1).

    scores   [sum of lengths]  higher is more worth recomputing
    lengths  tokens of each chunk; windows start at a chunk's first token and never cross its end
    ratio    nominal; candidates are the global top floor(ratio x tokens)

    A chunk's last window may be shorter and needs the same share of candidates. Isolated candidates are dropped, so
    the realised ratio differs from the nominal one.
    """
    window_of, sizes = _windows(lengths)
    candidates = torch.zeros(len(sizes), dtype=torch.int64).index_add_(0, window_of, _candidates(scores, ratio).long())
    return _tokens_in(candidates >= _needed(sizes), window_of)


def sliding_windows(scores: Tensor, lengths: list[int], ratio: float) -> Tensor:
    """Return the ascending indices of all tokens in a run of 8 with at least 5 candidates, wherever it starts (v2).

    Arguments as for `tumbling`. A chunk shorter than 8 tokens is one run.
    """
    chosen, keep = _candidates(scores, ratio).long(), torch.zeros(len(scores), dtype=torch.bool)
    start = 0
    for length in lengths:
        size = min(WINDOW, length)
        runs = chosen[start : start + length].unfold(0, size, 1)  # [length - size + 1, size]
        firsts = start + (runs.sum(-1) >= _needed(torch.tensor(size))).nonzero()  # [runs, 1]
        keep[(firsts + torch.arange(size)).flatten()] = True
        start += length
    return keep.nonzero()[:, 0]


def windows_within_budget(scores: Tensor, lengths: list[int], ratio: float, exact: int = 0) -> Tensor:
    """Return the ascending indices of the windows with the best mean score within floor(ratio x tokens).

    Arguments as for `tumbling`. A window that does not fit is skipped whole, never cut, so the realised ratio is at
    most a window below the nominal one.

    exact  leading chunks that need no recomputing; their windows are taken only at a ratio of 1, which is everything
    """
    window_of, sizes = _windows(lengths)
    means = torch.zeros(len(sizes)).index_add_(0, window_of, scores.float()) / sizes
    left, keep = token_budget(ratio, len(scores)), torch.zeros(len(sizes), dtype=torch.bool)
    needless, held = len(_windows(lengths[:exact])[1]), sizes.tolist()
    for best in sorted(range(needless, len(sizes)), key=means.neg().tolist().__getitem__):
        if held[best] <= left:
            keep[best] = True
            left -= held[best]
    keep[:needless] = ratio == 1
    return _tokens_in(keep, window_of)


def top_tokens(scores: Tensor, ratio: float) -> Tensor:
    """Return the ascending indices of the best floor(ratio x tokens) tokens; of equals the earlier ones."""
    return scores.argsort(descending=True, stable=True)[: token_budget(ratio, len(scores))].sort().values


def token_budget(ratio: float, tokens: int) -> int:
    """Return floor(ratio x tokens). Raises ValueError for a ratio outside 0 to 1."""
    if not 0 <= ratio <= 1:
        raise ValueError(f"ratio must lie between 0 and 1, got {ratio}")
    return math.floor(ratio * tokens + 1e-9)  # 0.29 * 100 is 28.999... in binary


def _candidates(scores: Tensor, ratio: float) -> Tensor:
    """Mark the global top tokens, [T] bool."""
    chosen = torch.zeros(len(scores), dtype=torch.bool)
    chosen[top_tokens(scores, ratio)] = True
    return chosen


def _windows(lengths: list[int]) -> tuple[Tensor, Tensor]:
    """Return the window of each token [T] and the tokens of each window [W]."""
    sizes = [min(WINDOW, length - at) for length in lengths for at in range(0, length, WINDOW)]
    held = torch.tensor(sizes, dtype=torch.int64)
    return torch.arange(len(sizes)).repeat_interleave(held), held


def _tokens_in(keep: Tensor, window_of: Tensor) -> Tensor:
    return keep[window_of].nonzero()[:, 0]


def _needed(sizes: Tensor) -> Tensor:
    """Candidates that make a window of these sizes: 5 of 8, and the same share of a shorter one."""
    return (sizes * NEEDED + WINDOW - 1) // WINDOW
