"""What may be quoted from a passage: its sentences, list items and table rows."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from engine.request import Quote
from engine.text import split_sentences
from store.markdown import LIST_ITEM, Block, parse_row, split_blocks

MAX_ITEM_CHARS = 300  # of a list item; the sentences of a longer one are quoted one by one
CELL = re.compile(r"(?<=\| )(?:[^|]*?: )?(.*?)(?= \|)")  # of a table row; the group is its value


@dataclass(frozen=True)
class Unit:
    """A sentence, list item, heading or table row of a passage: what a quote consists of."""

    passage: int
    start: int
    end: int
    block: Block


def split_units(passage: int, text: str) -> Iterator[Unit]:
    """Yield the units of a passage in order."""
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
                at = start + part.index(stripped[0])
                yield Unit(passage, at, at + len(stripped), block)


def cell_spans(row: str) -> list[tuple[int, int]]:
    """Return the characters of the values of a table row, without their headers."""
    return [match.span(1) for match in CELL.finditer(row)]


def format_quotes(quotes: Sequence[Quote]) -> str:
    """Return quotes as an answer: a line each, table rows without bars, with a mark [n] after each quote."""
    return "\n".join(f"{_readable(quote.text)} [{quote.rank}]" for quote in quotes)


def _readable(text: str) -> str:
    lines = []
    for line in text.split("\n"):
        cells = parse_row(line)
        lines.append("; ".join(f"{name}: {value}" if name else value for name, value in cells) if cells else line)
    return "\n".join(line.rstrip() for line in lines if line.strip())
