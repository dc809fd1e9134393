"""Passage text as spans of equal marking: recomputed, sink, cited, or any combination.

Adjacent characters with the same marks form one span. A method that selects single tokens would create almost one span
per token; beyond 200 spans, blocks of tokens take the colour of their majority.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from engine.analysis.inspection import InspectedPassage

MAX_SPANS = 200  # per passage, from recomputed tokens alone
RECOMPUTED, SINK, CITED = 1, 2, 4


@dataclass(frozen=True, slots=True)
class MarkedSpan:
    """A run of characters; `marks` is a sum of RECOMPUTED, SINK and CITED, 0 for reused text."""

    text: str
    marks: int


def mark_spans(
    passage: InspectedPassage, recomputed: np.ndarray, sinks: np.ndarray, quotes: Iterable[tuple[int, int]] = ()
) -> tuple[list[MarkedSpan], int]:
    """Return the spans of a passage, and the block size in tokens to which `recomputed` was coarsened.

    recomputed, sinks  [tokens] bool
    quotes             characters (start, end) that an answer quotes
    """
    recomputed, block = _coarsen(recomputed)
    marks = np.zeros(len(passage.text), dtype=np.uint8)
    for first, last in _runs(recomputed):
        marks[passage.spans[first, 0] : passage.spans[last - 1, 1]] |= RECOMPUTED
    for start, end in passage.spans[sinks].tolist():
        word = passage.text[start:end].lstrip()  # a token includes the space before its word, which stays unmarked
        marks[end - len(word) : end] |= SINK
    for start, end in quotes:
        marks[start:end] |= CITED
    bounds = [0, *(np.flatnonzero(np.diff(marks)) + 1).tolist(), len(marks)] if len(marks) else []
    return [MarkedSpan(passage.text[start:end], int(marks[start])) for start, end in pairwise(bounds)], block


def _runs(mask: np.ndarray) -> list[tuple[int, int]]:
    """Return start and end of each run of True in [tokens]."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return list(zip(edges[0::2].tolist(), edges[1::2].tolist(), strict=True))


def _coarsen(mask: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the mask and its block size: the smallest of 1, 8, 16 ... tokens with at most MAX_SPANS spans."""
    block = 1
    coarse = mask
    while 2 * len(_runs(coarse)) + 1 > MAX_SPANS:
        block = 8 if block == 1 else 2 * block
        starts = np.arange(0, len(mask), block)
        fraction = np.add.reduceat(mask.astype(int), starts) / np.diff([*starts, len(mask)])
        coarse = np.repeat(fraction >= 0.5, block)[: len(mask)]
    return coarse, block
