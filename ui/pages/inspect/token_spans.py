"""The fate of each piece of a passage's text: reused or recomputed, sink or not, cited or not; as few pieces as can be.

Neighbouring characters of one fate are one piece. A method that picks single tokens would still make a piece of nearly
every token; where a passage would fall into more than 200 pieces, tokens share the fate of most of their block.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from engine.analysis.report import Excerpt

MOST = 200  # pieces of one passage that recomputing may make
RECOMPUTED, SINK, CITED = 1, 2, 4


@dataclass(frozen=True, slots=True)
class Fate:
    """A run of characters. `fate` is a sum of RECOMPUTED, SINK and CITED; 0 is text that is reused as it stands."""

    text: str
    fate: int


def fates(
    excerpt: Excerpt, recomputed: np.ndarray, sinks: np.ndarray, cited: Iterable[tuple[int, int]] = ()
) -> tuple[list[Fate], int]:
    """Return the pieces of a passage, whose texts joined are the passage, and how many tokens share one fate at least.

    recomputed, sinks  [tokens] bool
    cited              characters (start, end) that an answer rests on
    """
    recomputed, block = _coarse(recomputed)
    marks = np.zeros(len(excerpt.text), dtype=np.uint8)
    for first, last in _runs(recomputed):
        marks[excerpt.spans[first, 0] : excerpt.spans[last - 1, 1]] |= RECOMPUTED
    for start, end in excerpt.spans[sinks].tolist():
        word = excerpt.text[start:end]  # the space before a word belongs to its token, and looks odd in its colour
        marks[end - len(word.lstrip()) : end] |= SINK
    for start, end in cited:
        marks[start:end] |= CITED
    cuts = [0, *(np.flatnonzero(np.diff(marks)) + 1).tolist(), len(marks)] if len(marks) else []
    return [Fate(excerpt.text[a:b], int(marks[a])) for a, b in pairwise(cuts)], block


def _runs(chosen: np.ndarray) -> list[tuple[int, int]]:
    """Return where the true stretches of [tokens] begin and end."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], chosen, [False])).astype(np.int8)))
    return list(zip(edges[0::2].tolist(), edges[1::2].tolist(), strict=True))


def _coarse(chosen: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the choice in the smallest blocks (1, 8, 16 ... tokens) whose changes stay below MOST, and their size."""
    block, coarse = 1, chosen
    while 2 * len(_runs(coarse)) + 1 > MOST:
        block = 8 if block == 1 else 2 * block
        starts = np.arange(0, len(chosen), block)
        share = np.add.reduceat(chosen.astype(int), starts) / np.diff([*starts, len(chosen)])
        coarse = np.repeat(share >= 0.5, block)[: len(chosen)]
    return coarse, block
