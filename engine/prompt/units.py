"""What a text consists of when parts of it are quoted or compared: its sentences, list items and table rows."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from engine.text import split_sentences
from store.markdown import LIST_ITEM, Block, split_blocks

MAX_ITEM_CHARS = 300  # of a list item; the sentences of a longer one are units of their own


@dataclass(frozen=True)
class Unit:
    """A sentence, list item, heading or table row of a passage: what a quote consists of."""

    passage: int
    start: int
    end: int
    block: Block

    def text(self, texts: Sequence[str]) -> str:
        """Return the unit's part of its passage, of these texts."""
        return texts[self.passage][self.start : self.end]


def split_units(passage: int, text: str) -> Iterator[Unit]:
    """Yield the units of a passage in order; list items are without their marks."""
    for block in split_blocks(text):
        body = text[block.start : block.end]
        if block.kind == "paragraph":
            parts = split_sentences(body)
        elif block.kind == "list":
            items = re.split(rf"(?<=\n)(?={LIST_ITEM.pattern})", body)
            parts = [
                part for item in items for part in (split_sentences(item) if len(item) > MAX_ITEM_CHARS else [item])
            ]
        else:
            parts = re.split(r"(?<=\n)", body)
        starts = accumulate((len(part) for part in parts), initial=block.start)
        for start, part in zip(starts, parts, strict=False):
            if stripped := part.strip():
                marker = LIST_ITEM.match(part) if block.kind == "list" else None
                at = start + (marker.end() if marker else part.index(stripped[0]))
                yield Unit(passage, at, start + len(part.rstrip()), block)
