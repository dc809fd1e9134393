"""What the rows of a table add up to: 'How many tickets are open?', 'What did we spend on fuel in total?'.

The answer names the rows by the conditions that they meet, so that a reader sees what was counted or added up. There is
none if a word of the question occurs in the table and is no such condition.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from engine.prompt.amounts import CELL_NUMBER, currency, number_of
from engine.prompt.followups import CLITIC
from engine.prompt.overlap import content_stems, content_words, missing_names, stem
from engine.prompt.row_conditions import (
    Condition,
    amount_column,
    column_currency,
    conditions,
    number_columns,
    rows_that_meet,
)
from engine.prompt.superlatives import SUPERLATIVE
from engine.prompt.table_questions import COUNTED, TOTAL, Cells, said_rows
from engine.text import split_words
from store.german import is_german

ALL = re.compile(
    r"\b(?:there|in (?:total|all)|altogether|overall|(?:listed )?in (?:the|this) (?:list|table|file)|insgesamt|stehen"
    r"|in der (?:liste|tabelle|datei))\b",
    re.I,
)
SUM = re.compile(
    r"\b(?:(?:in )?total|sum|adds? up|altogether|in all|overall|combined|insgesamt|gesamt\w*|summe|zusammen)\b",
    re.I,
)
MEAN = re.compile(r"\b(?:on average|average|the mean|durchschnitt\w*|im (?:schnitt|durchschnitt|mittel))\b", re.I)
AMOUNT_WORD = re.compile(
    r"\b(?:cost|spen[dt]|paid|pay|money|price|expens|earn|revenue|income|owe|worth|amount|bill|charg|kost|gekostet"
    r"|bezahl|gezahlt|ausgegeben|ausgab|geld|verdien|einnahm|einnehm|umsatz|betrag|wert)\w*",
    re.I,
)
EMPTY_WORD = re.compile(
    r"\b(?:all|each|every|c[oa]me|ma[dk]e|placed?|book(?:ed)?|record(?:ed)?|list(?:ed)?|mark(?:ed)?|tied|up|us|went|go"
    r"|during|alle[nrs]?|jede[mnrs]?|eintr\u00e4ge?|eintrag|gemacht|erfasst|gebucht|verbucht|eingegangen|w\u00e4hrend|hat|hatten?)\b",
    re.I,
)
UNIT_HEADER = re.compile(r"units?|unit of measure|currency|einheit|w\u00e4hrung", re.I)
EMPTY = (CLITIC, ALL, SUM, EMPTY_WORD)  # what does not say which rows are meant
MIN_TABLE_ROWS = 8  # a smaller table with a sum or mean says it itself
MIN_ROWS = 2  # that are added up
MAX_DECIMALS = 2  # of a mean
MAX_OTHER_WORDS = 2  # that a question with a result may have
MIN_SHARED_LETTERS = 4  # of what rows are called: 'Beleg', 'Belege'


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a whole table that a question means."""

    rows: tuple[Cells, ...] = ()
    result: str = ""  # their number, sum or mean, and their conditions; '' if the question asks to list them


NO_ROWS = TableRows()


def asks_for_result(question: str) -> bool:
    """Return whether a question may ask for a number, sum or mean of rows."""
    return bool(COUNTED.search(question) or SUM.search(question) or MEAN.search(question))


def result_of_rows(question: str, rows: Sequence[Cells], document_name: str) -> tuple[list[int], str]:
    """Return the rows that a question counts, adds up or averages, and the result as text; none if that is unclear."""
    if not rows or not rows[0]:
        return [], ""
    return (_counted if COUNTED.search(question) else _added_up)(question, rows, document_name)


def _counted(question: str, rows: Sequence[Cells], document_name: str) -> tuple[list[int], str]:
    """Return the rows that a question counts, which the first column or the document's name calls so, and how many."""
    counted = COUNTED.search(question)
    names = {name[:MIN_SHARED_LETTERS] for name in content_stems(f"{rows[0][0][0]} {document_name}")}
    if counted is None or not any(word[:MIN_SHARED_LETTERS] in names for word in content_stems(counted[1])):
        return [], ""
    asked = {word for word in map(stem, _words(question, EMPTY)) if word[:MIN_SHARED_LETTERS] not in names}
    headers = content_stems(" ".join(header for header, _ in rows[0]))
    explained: list[str] = []
    if not asked:
        met = rows_that_meet([], rows)
    elif asked <= headers and (said := said_rows(question, rows, is_strict=True)):
        met = said
    elif (understood := _understand(question, rows, document_name, EMPTY)) and understood[0]:
        met, explained = rows_that_meet(understood[0], rows), _explain(question, *understood)
    else:
        return [], ""
    if not met:
        return [], ""
    return met, f"{len(met)} ({'; '.join(explained)})" if explained else str(len(met))


def _added_up(question: str, rows: Sequence[Cells], document_name: str) -> tuple[list[int], str]:
    """Return the rows whose numbers a question adds up or averages, and the sum or mean."""
    understood = _understand(question, rows, document_name, (*EMPTY, MEAN, AMOUNT_WORD))
    if len(rows) < MIN_TABLE_ROWS or SUPERLATIVE.search(question) or understood is None:
        return [], ""
    has_total = any(TOTAL.match(row[0][1]) for row in rows)
    met = [] if has_total and not understood[0] else rows_that_meet(understood[0], rows)
    header = _added_column(question, rows)
    cells = [CELL_NUMBER.fullmatch(dict(rows[index]).get(header or "", "").strip()) for index in met]
    numbers = [cell for cell in cells if cell]
    if header is None or len(met) < MIN_ROWS or len(numbers) < len(met):  # or one has no number
        return [], ""
    if len({cell["unit"] for cell in numbers}) > 1 or _has_several_units([rows[index] for index in met]):
        return [], ""
    is_mean, is_in_german = bool(MEAN.search(question)), is_german(question)
    values = list(map(number_of, numbers))
    amount = _format(mean(values) if is_mean else sum(values), numbers, column_currency(header, rows), is_mean)
    name = ("Durchschnitt" if is_mean else "Summe") if is_in_german else ("mean" if is_mean else "sum")
    explained = [f"{name}: {header}", f"{len(met)} {'Zeilen' if is_in_german else 'rows'}"]
    return met, f"{amount} ({'; '.join([*explained, *_explain(question, *understood)])})"


def _has_several_units(rows: Sequence[Cells]) -> bool:
    """Return whether rows are in several currencies, or have a column of units that differ."""
    currencies = {currency(value) for row in rows for _, value in row} - {""}
    units = {value for row in rows for header, value in row if UNIT_HEADER.fullmatch(header)}
    return len(currencies) > 1 or len(units) > 1


def _understand(
    question: str, rows: Sequence[Cells], document_name: str, empty: Sequence[re.Pattern[str]]
) -> tuple[list[Condition], list[str]] | None:
    """Return the question's conditions, and its other words; None if one is unclear, or if such a word may be one.

    That is a word or number of a cell, a name that is neither in the table nor in the document's name, or any of many.
    """
    found = conditions(question, rows)
    headers = " ".join(header for header, _ in rows[0])
    values = " ".join(value for row in rows for _, value in row)
    if found is None or missing_names(question, [values, headers, document_name]):
        return None
    explained = content_stems(" ".join([document_name, headers, *(f"{each.header} {each.words}" for each in found)]))
    others = [word for word in _words(question, empty) if stem(word) not in explained]
    in_cells = content_stems(values)
    is_condition = any(stem(word) in in_cells or word[0].isdecimal() for word in others)
    return None if is_condition or len(others) > MAX_OTHER_WORDS else (found, others)


def _explain(question: str, found: Sequence[Condition], others: Sequence[str]) -> list[str]:
    """Return the conditions of a result, and which words were not understood as one."""
    title = "nicht ber\u00fccksichtigt" if is_german(question) else "not considered"
    return [*map(str, found), *([f"{title}: {', '.join(others)}"] if others else [])]


def _words(question: str, empty: Sequence[re.Pattern[str]]) -> list[str]:
    """Return the content words of a question without those that do not say which rows are meant."""
    for pattern in empty:
        question = pattern.sub(" ", question)
    content = content_words(question)
    return [word for word in dict.fromkeys(split_words(question)) if word in content]


def _added_column(question: str, rows: Sequence[Cells]) -> str | None:
    """Return the column that a question adds up: one that it names, or of amounts of money; None if that is unclear."""
    columns, stems = number_columns(rows), set(map(stem, split_words(question)))
    named = [header for header in columns if content_stems(header) & stems and not SUM.fullmatch(header)]
    if len(named) == 1:
        return named[0]
    return amount_column(rows) if AMOUNT_WORD.search(question) else columns[0] if len(columns) == 1 else None


def _format(number: float, cells: Sequence[re.Match[str]], sign: str, is_mean: bool) -> str:
    """Return a number as the cells that it comes from are written: with their separators, decimals and unit."""
    fractions = [match for cell in cells if (match := re.search(r"([.,])(\d{1,2})$", cell["digits"]))]
    decimals = MAX_DECIMALS if is_mean or (sign and fractions) else max((len(each[2]) for each in fractions), default=0)
    text = f"{number:,.{decimals}f}"
    if any(each[1] == "," for each in fractions):
        text = text.translate(str.maketrans(",.", ".,"))
    units = {cell["unit"] for cell in cells}
    unit = units.pop() if len(units) == 1 else None
    if unit and not sign:
        return f"{text} {unit}"
    return f"{text} {sign}" if sign in ("\u20ac", "CHF") else f"{sign}{text}"
