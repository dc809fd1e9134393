"""What a plan did to each passage: the pieces that the page shows, and the figures that the trace reports."""

import itertools

import torch
from torch import Tensor

from engine.answer import Piece
from engine.model.tokens import Encoded


def chosen_in(rows: Tensor, spans: tuple[range, ...]) -> list[Tensor]:
    """Return for each chunk which of its tokens are among the rows, [tokens] bool each.

    rows   [R] slots, ascending
    spans  slots of each chunk
    """
    marked = torch.zeros(spans[-1].stop if spans else 0, dtype=torch.bool)
    marked[rows] = True
    return [marked[span.start : span.stop] for span in spans]


def pieces(text: str, encoded: Encoded, chosen: Tensor) -> tuple[Piece, ...]:
    """Cut a passage's text where the tokens' fate changes; joined, the pieces are the text again.

    encoded  the tokens of the passage; their spans may reach past the text (the blank line behind it)
    chosen   [tokens] bool
    """
    fates = [False] * len(text)
    for (start, end), fresh in zip(encoded.spans, chosen.tolist(), strict=True):
        if fresh:
            fates[start:end] = [True] * (min(end, len(text)) - min(start, len(text)))
    cuts = [0, *(at for at in range(1, len(text)) if fates[at] != fates[at - 1]), len(text)]
    return tuple(Piece(text[a:b], fates[a]) for a, b in itertools.pairwise(cuts) if b > a)
