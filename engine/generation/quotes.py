"""What may be quoted from a passage: its sentences, list items and table rows."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from engine.request import Quote
from engine.text import split_sentences
from store.markdown import LIST_ITEM, Block, parse_row, split_blocks

MAX_ITEM_CHARS = 300  # of a list item; the sentences of a longer one are quoted one by one
CELL = re.compile(r"(?<=\| )(?:([^|]*?): )?(.*?)(?= \|)")  # of a table row: header and value
EMPHASIS = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")  # Markdown
WORD_CHARACTER = re.compile(r"\w|[.,]\d")
WORD_BEFORE = re.compile(r"(?:\w|(?<=\d)[.,](?=\d|$)|(?<=\w)-)+$")
WORD_AFTER = re.compile(r"(?:-?\w|(?<=\d)[.,]\d)*")


@dataclass(frozen=True)
class Unit:
    """A sentence, list item, heading or table row of a passage: what a quote consists of."""

    passage: int
    start: int
    end: int
    block: Block


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


def whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span widened to whole words and numbers: word pieces are parts of them."""
    before, after = WORD_BEFORE.search(text[:start]), WORD_AFTER.match(text, end)
    if before and WORD_CHARACTER.match(text, start):
        start = before.start()
    return start, after.end() if after else end


def format_quotes(quotes: Sequence[Quote]) -> str:
    """Return quotes as an answer: a line each, table rows without bars, with a mark [n] after each quote."""
    return "\n".join(f"{format_unit(quote.text)} [{quote.rank}]" for quote in quotes)


def format_unit(text: str) -> str:
    """Return quoted text without the bars of table rows, blank lines and marks of emphasis."""
    lines = []
    text = EMPHASIS.sub(r"\2", text)
    for line in text.split("\n"):
        cells = parse_row(line)
        lines.append("; ".join(f"{name}: {value}" if name else value for name, value in cells) if cells else line)
    return "\n".join(line.rstrip() for line in lines if line.strip())
