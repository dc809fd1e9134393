"""Quotes from passages as the text of an answer."""

import re
from collections.abc import Sequence

from engine.prompt.answer_type import SHORT_UNIT, UNIT
from engine.request import Quote
from store.markdown import parse_row

CELL = re.compile(r"(?<=\| )(?:([^|]*?): )?(.*?)(?= \|)")  # of a table row: header and value
EMPHASIS = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")  # Markdown
WORD_CHARACTER = re.compile(r"\w|[.,]\d")
WORD_BEFORE = re.compile(r"(?:[\u20ac\u00a3$](?=\d|$)|\w|(?<=\d)[.,](?=\d|$)|(?<=\w)-)+$")
UNIT_AFTER = re.compile(  # of a number: '15 years', 'fifteen years'
    rf"[ \u00a0-](?:{UNIT}|per cent|percent|pence|pounds|euros?|dollars|tons?|tonnes|litres?|Prozent|Liter|Tonnen)\b"
    rf"|(?<=\d)[ \u00a0](?:%|\u00b0C|\u20ac|(?:{SHORT_UNIT}|k?g|kWh?)\b)"
)
WORD_AFTER = re.compile(r"(?:-?\w|(?<=\d)[.,]\d)*")


def whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span widened to whole words and numbers, of which word pieces are parts, and to a number's unit."""
    before, after = WORD_BEFORE.search(text[:start]), WORD_AFTER.match(text, end)
    if before and WORD_CHARACTER.match(text, start):
        start = before.start()
    end = after.end() if after else end
    unit = UNIT_AFTER.match(text, end)
    return start, unit.end() if unit else end


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
