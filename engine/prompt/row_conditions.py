"""Which rows of a table a question means: 'open orders over 500 euros in March'.

Its words and numbers decide that exactly, which a small model does not learn. A condition that these rules do not
understand leaves no rows, rather than wrong ones.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from engine.prompt.amounts import CELL_NUMBER, cell_number, currency
from engine.prompt.dates import date_tests, full_date
from engine.prompt.followups import STOP_WORD, YEAR
from engine.prompt.overlap import content_stems, stem
from engine.prompt.table_questions import (
    FREE,
    FREE_OF_CHARGE,
    MAXIMUM,
    MINIMUM,
    RANGE,
    TOTAL,
    Cells,
    read_number,
)

EXCLUDED = re.compile(r"(?:\b(?:not|never|nicht)|n['\u2019]t) (?:(?:the|those|yet|been|die|noch) )*(\w+)", re.I)
NEGATED = re.compile(r"(?:\b(?:not|never|nicht)|n['\u2019]t) $", re.I)  # what follows
OR = re.compile(r"\b(?:or|oder)\b", re.I)
EXCLUSIVE = re.compile(r"(?:over|above|more|older|under|below|less|fewer|\u00fcber|mehr|unter|weniger)\b", re.I)
NOT_UNDERSTOOD = re.compile(  # times, comparisons of columns, and exceptions
    r"\b(?:(?:last|this|next|past|current|previous) (?:\w+ )?(?:day|week|month|year|quarter|season)s?|recent\w*|today"
    r"|yesterday|tomorrow|weekends?|except|without|\w+ than"
    r"|(?:letzte|diese|n\u00e4chste)[mnrs]? (?:\w+ )?(?:tag|woche|monat|jahr|quartal)\w*|heute|gestern|wochenende\w*"
    r"|ohne|au\u00dfer|\w+er als)\b",
    re.I,
)
AMOUNT_HEADER = re.compile(
    r"\b(?:amount|total|sum|cost|price|net|gross|fee|betrag|summe|gesamt|kosten|preis|wert)", re.I
)
WHOLE_AMOUNT_HEADER = re.compile(r"\b(?:amount|total|sum|betrag|summe|gesamt)", re.I)  # not of one piece
MIN_SHARE = 0.6  # of the cells of a column of numbers, or of dates


@dataclass(frozen=True, slots=True)
class Condition:
    """What a question says about the values of a column."""

    header: str
    text: str  # for the user, such as 'open', 'over 500' or 'March 2025'
    is_met: Callable[[str], bool]
    words: str  # of the question that it explains

    def __str__(self) -> str:
        return f"{self.header}: {self.text}"


def conditions(question: str, rows: Sequence[Cells]) -> list[Condition] | None:
    """Return a question's conditions on the rows of a table; None if one is not understood or fits no column."""
    rows = [row for row in rows if row and not TOTAL.match(row[0][1])]
    dates = _date_conditions(question, rows)
    if dates is None or NOT_UNDERSTOOD.search(_without_limits(question)):
        return None
    rest = _without(question, (each.text for each in dates))
    limits = _limit_conditions(rest, rows)
    rest = _without_limits(rest)
    values = named_values(rest, rows)
    if limits is None or not set(map(stem, EXCLUDED.findall(rest.lower()))) <= _left_out(values, rows):
        return None
    found = [*values, *dates, *limits]
    is_choice = bool(OR.search(rest)) and len({each.header for each in found}) > 1  # this or that column
    return None if is_choice else found


def rows_that_meet(found: Sequence[Condition], rows: Sequence[Cells]) -> list[int]:
    """Return the rows that meet all conditions, without totals."""
    return [
        index
        for index, row in enumerate(rows)
        if row and not TOTAL.match(row[0][1]) and all(each.is_met(dict(row).get(each.header, "")) for each in found)
    ]


def filtered_rows(question: str, rows: Sequence[Cells]) -> list[int]:
    """Return the rows that meet the conditions of a question; none instead of all."""
    found = conditions(question, rows)
    met = rows_that_meet(found, rows) if found else []
    return met if len(met) < len(rows) else []


def named_values(question: str, rows: Sequence[Cells]) -> list[Condition]:
    """Return the conditions of the values that a question names: one of them, in each column.

    A value that follows 'not' is excluded. A number needs its header. A question about what is free names the values
    that say so.
    """
    stems, excluded_stems = (
        content_stems(EXCLUDED.sub("", question)),
        content_stems(" ".join(EXCLUDED.findall(question))),
    )
    is_free = bool(FREE_OF_CHARGE.search(question))
    wanted, excluded = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for header, value in dict.fromkeys(chain.from_iterable(rows)):
        words = content_stems(value)
        is_clear = any(map(str.isalpha, value)) or content_stems(header) & stems
        if (words and words <= stems and is_clear) or (is_free and FREE.fullmatch(value)):
            wanted[header].add(value)
        elif words and words <= excluded_stems:
            excluded[header].add(value)
    return [
        Condition(header, f"{negation}{', '.join(sorted(values))}", test(frozenset(values)), " ".join(sorted(values)))
        for named, negation, test in ((wanted, "", _is_in), (excluded, "not ", _is_not_in))
        for header, values in named.items()
    ]


def number_columns(rows: Sequence[Cells]) -> list[str]:
    """Return the headers of the columns of numbers, without the first column, which names the rows, and years."""

    def is_amount(value: str) -> bool:
        return cell_number(value) is not None and not YEAR.fullmatch(value.strip())

    return _columns(rows, is_amount, skip=1)


def column_currency(header: str, rows: Sequence[Cells]) -> str:
    """Return the sign of the currency of a column, which its header or a cell names."""
    texts = chain([header.replace("_", " ")], (dict(row).get(header, "") for row in rows))
    return next(filter(None, map(currency, texts)), "")


def amount_column(rows: Sequence[Cells]) -> str | None:
    """Return the column of amounts of money; of several, that of whole amounts; None if that is unclear."""
    titles = {header: header.replace("_", " ") for header in number_columns(rows)}
    amounts = [header for header in titles if AMOUNT_HEADER.search(titles[header]) or column_currency(header, rows)]
    whole = [header for header in amounts if WHOLE_AMOUNT_HEADER.search(titles[header])]
    return next((found[0] for found in (amounts, whole) if len(found) == 1), None)


def _columns(rows: Sequence[Cells], is_of_kind: Callable[[str], bool], skip: int) -> list[str]:
    cells = defaultdict[str, list[str]](list)
    for row in rows:
        for header, value in row[skip:]:
            if header and value.strip():
                cells[header].append(value)
    return [
        header
        for header, values in cells.items()
        if sum(map(is_of_kind, values)) >= max(1, MIN_SHARE * len(values)) and 2 * len(values) >= len(rows)
    ]


def _is_in(values: frozenset[str]) -> Callable[[str], bool]:
    return lambda value: value in values


def _is_not_in(values: frozenset[str]) -> Callable[[str], bool]:
    return lambda value: value not in values


def _without_limits(question: str) -> str:
    """Return a question without its limits: 'more than 5' compares no columns."""
    for pattern in (RANGE, MAXIMUM, MINIMUM):
        question = pattern.sub(" ", question)
    return question


def _without(question: str, texts: Iterable[str]) -> str:
    for text in texts:
        question = question.replace(text, " ")
    return question


def _left_out(found: Sequence[Condition], rows: Sequence[Cells]) -> set[str]:
    """Return the stems of the cells that do not meet a condition."""
    cells = dict.fromkeys(chain.from_iterable(rows))
    return set().union(
        *(
            content_stems(value)
            for each in found
            for header, value in cells
            if header == each.header and not each.is_met(value)
        )
    )


def _limit_conditions(question: str, rows: Sequence[Cells]) -> list[Condition] | None:
    """Return the conditions of the limits of numbers; None if the column of one is unclear."""
    found = []
    for pattern in (RANGE, MAXIMUM, MINIMUM):
        for match in pattern.finditer(question):
            low, high = float("-inf"), float("inf")
            numbers = [read_number(number) for number in match.groups() if number]
            if pattern is RANGE:
                low, high = numbers
            elif pattern is MAXIMUM:
                high = numbers[0]
            else:
                low = numbers[0]
            header = _limited_column(question, match[0], rows)
            if header is None or NEGATED.search(question[: match.start()]):
                return None
            is_exclusive = bool(EXCLUSIVE.match(match[0])) and pattern is not RANGE
            unit = _unit(match[0])
            text = match[0].strip() if _has_unit(header, unit, rows) else match[0].strip().removesuffix(unit).strip()
            found.append(Condition(header, text, _is_between(low, high, is_exclusive), text))
        question = pattern.sub(" ", question)
    return found


def _limited_column(question: str, limit: str, rows: Sequence[Cells]) -> str | None:
    """Return the column of numbers that a question names, or that of amounts for one of money, or the only one."""
    columns, stems = number_columns(rows), content_stems(question)
    named = [header for header in columns if content_stems(header) & stems]
    if len(named) == 1:
        return named[0]
    sign = currency(limit)
    amounts = amount_column(rows) if sign else None
    if amounts and column_currency(amounts, rows) in ("", sign):
        return amounts
    is_only = len(columns) == 1 and not sign and _has_unit(columns[0], _unit(limit), rows)
    return columns[0] if is_only else None


def _unit(limit: str) -> str:
    """Return the word after the number of a limit; '' if it is none that says what is counted."""
    word = limit.split()[-1]
    return word if word.isalpha() and not STOP_WORD.fullmatch(word.lower()) else ""


def _has_unit(header: str, unit: str, rows: Sequence[Cells]) -> bool:
    """Return whether a column is in a unit, which may be its header, in its cells, or a currency; any is in none."""
    cells = (CELL_NUMBER.fullmatch(dict(row).get(header, "").strip()) for row in rows)
    units = {stem(cell["unit"].lower()) for cell in cells if cell and cell["unit"]}
    return not unit or bool(currency(unit)) or stem(unit.lower()) in units | content_stems(header)


def _is_between(low: float, high: float, is_exclusive: bool) -> Callable[[str], bool]:
    def is_met(value: str) -> bool:
        number = cell_number(value)
        return number is not None and low <= number <= high and not (is_exclusive and number in (low, high))

    return is_met


def _date_conditions(question: str, rows: Sequence[Cells]) -> list[Condition] | None:
    """Return the conditions of dates, none if no column has dates; None if they are unclear."""
    columns, stems = _columns(rows, lambda value: full_date(value) is not None, skip=0), content_stems(question)
    if not columns:
        return []
    header = next((header for header in columns if content_stems(header) & stems), columns[0])
    years = {date[0] for row in rows if (date := full_date(dict(row).get(header, "")))}
    tests = date_tests(question)
    if tests is None or (len(years) > 1 and any(each.needs_one_year for each in tests)):
        return None
    return [Condition(header, each.text, each.is_met, each.text) for each in tests]
