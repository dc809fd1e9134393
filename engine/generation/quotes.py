"""Quotes from passages, and what of them is the text of an answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.prompt.answer_type import SHORT_UNIT, UNIT
from engine.prompt.units import Unit
from engine.request import Quote
from store.markdown import parse_row

MAX_OTHERS = 3  # quotes beside an uncertain answer
CELL = re.compile(r"(?<=\| )(?:([^|]*?): )?(.*?)(?= \|)")  # of a table row: header and value
EMPHASIS = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")  # Markdown
WORD_CHARACTER = re.compile(r"\w|[.,]\d")
WORD_BEFORE = re.compile(r"(?:[\u20ac\u00a3$](?=\d|$)|\w|(?<=\d)[.,](?=\d|$)|(?<=\w)-)+$")
UNIT_AFTER = re.compile(  # of a number: '15 years', 'fifteen years'
    rf"[ \u00a0-](?:{UNIT}|per cent|percent|pence|pounds|euros?|dollars|tons?|tonnes|litres?|Prozent|Liter|Tonnen)\b"
    rf"|(?<=\d)[ \u00a0](?:%|\u00b0C|\u20ac|(?:{SHORT_UNIT}|k?g|kWh?)\b)"
)
CELL_NUMBER = re.compile(r"[-\u2212+]?\d{1,12}(?:[.,' \u00a0]\d{1,3})*")
DECIMAL_COMMA = re.compile(r",\d\d?$")
HEADER_UNIT = re.compile(r"[(\[](?:in )?([^()\[\]]{1,30})[)\]]$")  # 'Weight (kg)'
PER = r"(?: ?/ ?| per | pro | je )\w{1,12}\u00b2?"
CURRENCY_UNIT = re.compile(rf"([\u20ac\u00a3$\u00a5])(k|m|bn| million| billion)?({PER})?")
PLAIN_UNIT = re.compile(  # after the number
    rf"(?:(?i:{UNIT}|tons?|tonnes?|Tonnen|litres?|Liter|acres?|euros?|pounds|dollars|pence)"
    r"|%|\u00b0[CF]|[km\u00b5]?g|t|lbs?|oz|(?:[kcm\u00b5]?m|ft|in)[\u00b2\u00b323]?|ha|[mch]?l|h|hrs?|min|m?s|mph|rpm|m?Ah?"
    rf"|[kMG]?(?:W|Wh|V|J|N|Hz|Pa)|hPa|kcal|bar|psi|dB|[kMGT]B|px|EUR|GBP|USD|CHF)(?:{PER})?"
)
WORD_AFTER = re.compile(r"(?:-?\w|(?<=\d)[.,]\d)*")


@dataclass(frozen=True)
class Candidate:
    """A possible answer: a span of a sentence, or a cell of a table row; the chosen one may be all of either."""

    text: str
    unit: Unit
    quote: Quote
    score: float  # in nats: of the unit, and of the span or cell relative to others of the unit
    highlight: str = ""  # the part of a whole sentence or row that answers


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


def other_quotes(quotes: Sequence[Quote], shown: Sequence[Quote]) -> list[Quote]:
    """Return the first quotes, at most MAX_OTHERS, whose text is not in one that is shown or that comes before."""
    others: list[Quote] = []
    for quote in quotes:
        if len(others) < MAX_OTHERS and not any(quote.text in each.text for each in (*shown, *others)):
            others.append(quote)
    return others


def format_unit(text: str) -> str:
    """Return quoted text without the bars of table rows, blank lines and marks of emphasis."""
    lines = []
    text = EMPHASIS.sub(r"\2", text)
    for line in text.split("\n"):
        cells = parse_row(line)
        lines.append("; ".join(f"{name}: {value}" if name else value for name, value in cells) if cells else line)
    return "\n".join(line.rstrip() for line in lines if line.strip())


def with_unit(value: str, header: str) -> str:
    """Return the value of a cell with the unit that its header names, '38.50 kg', if it is a number without one."""
    bracket = HEADER_UNIT.search(header.strip()) if CELL_NUMBER.fullmatch(value) else None
    unit = bracket[1].strip() if bracket else ""
    if currency := CURRENCY_UNIT.fullmatch(unit):
        symbol, scale, per = currency.groups(default="")
        sign, digits = (value[0], value[1:]) if not value[0].isdigit() else ("", value)
        is_before = not DECIMAL_COMMA.search(value)
        return f"{sign}{symbol}{digits}{scale}{per}" if is_before else f"{value}{scale} {symbol}{per}"
    is_year = unit.casefold() in ("year", "jahr") and len(value) == 4  # not a number of years
    if PLAIN_UNIT.fullmatch(unit) and not is_year:
        return f"{value}{'' if unit == '%' else ' '}{unit}"
    return value
