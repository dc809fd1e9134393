"""Columns that are months or years: which of them a question means, and whether its table lacks that."""

import re
from collections.abc import Sequence
from typing import NamedTuple, Self

from engine.prompt.tables.columns import TOTAL, Cells
from engine.prompt.tables.dates import DATE, MONTHS, dates_of

MONTH_HEADER = re.compile(rf"(?P<month>{'|'.join(MONTHS)})\.?(?: (?:19|20)?\d\d)?", re.I)
YEARS = re.compile(r"(?<!\d)((?:19|20)\d\d)(?: ?[/\u2013-] ?((?:19|20)?\d\d)(?!\d))?")  # also '2024/25'
OPEN_PERIOD = re.compile(r"\b(?:from|since|until|till|before|after|up to|ab|seit|bis|vor|nach)\b", re.I)
BEFORE_PERIOD = re.compile(
    r"\b(?:in|of|for|during|fy|year|im|f\u00fcr|w\u00e4hrend|jahr)(?: (?:the|year|dem|jahr))* $", re.I
)
MIN_MONTHS = 3  # columns, of a table of months
MIN_YEARS = 2


def period_column(question: str, headers: Sequence[str]) -> str | None:
    """Return the header of the month, or the year, that a question names; None if none is, or several are."""
    found = _columns_of(_Periods.of(question), headers)
    return found[0] if found and len(found) == 1 else None


def lacks_period(question: str, row: Cells) -> bool:
    """Return whether a row has nothing but numbers of months, or years, none of which is the question's."""
    headers = [header for header, _ in row[1:] if not TOTAL.match(header)]
    are_periods = all(map(MONTH_HEADER.fullmatch, headers)) or all(map(YEARS.search, headers))
    is_unclear = any(map(OPEN_PERIOD.search, headers)) or bool(YEARS.search(row[0][1] if row else ""))
    if not are_periods or is_unclear:
        return False
    # Not the periods of names: 'Expo 2020', 'Jan Novak'.
    found = [match[0] for match in DATE.finditer(question) if BEFORE_PERIOD.search(question[: match.start()])]
    named = _Periods.of(" ".join(f"in {text}" for text in found))
    return named == _Periods.of(question) and _columns_of(named, headers) == []


class _Periods(NamedTuple):
    """What a question names."""

    months: frozenset[int]
    years: frozenset[int]

    @classmethod
    def of(cls, question: str) -> Self:
        dates = dates_of(question)
        return cls(frozenset(each[1] for each in dates if each[1]), frozenset(each[0] for each in dates if each[0]))


def _columns_of(periods: _Periods, headers: Sequence[str]) -> list[str] | None:
    """Return the headers with the only month or year; None unless there is one and the columns are such periods."""
    by_month = {header: _month(header) for header in headers if MONTH_HEADER.fullmatch(header)}
    if len(periods.months) == 1 and len(by_month) >= MIN_MONTHS:
        return [header for header, month in by_month.items() if month in periods.months]
    by_year = {header: _years(header) for header in headers if _years(header)}
    if len(periods.years) == 1 and not periods.months and len(by_year) >= MIN_YEARS:
        return [header for header, each in by_year.items() if periods.years & each]
    return None


def _month(header: str) -> int:
    match = MONTH_HEADER.fullmatch(header)
    return next(number for number, names in enumerate(MONTHS, 1) if match and re.fullmatch(names, match["month"], re.I))


def _years(header: str) -> set[int]:
    """Return the years of a header; '2024/25' is both, '2024-2026' also those between."""
    found = set[int]()
    for first, last in YEARS.findall(header):
        end = int(last if len(last) == len(first) else first[:2] + (last or first[2:]))
        found |= set(range(int(first), end + 1)) | {int(first)}
    return found
