"""Columns that are months or years: which of them a question means, and whether its table lacks that."""

import re
from collections.abc import Sequence

from engine.prompt.tables.columns import Cells
from engine.prompt.tables.dates import MONTHS, dates_of

MONTH_HEADER = re.compile(rf"(?P<month>{'|'.join(MONTHS)})\.?(?: (?:19|20)?\d\d)?", re.I)
YEARS = re.compile(r"(?<!\d)((?:19|20)\d\d)(?:[/\u2013-](\d\d)(?!\d))?")  # also '2024/25'
MIN_MONTHS = 3  # columns, of a table of months
MIN_YEARS = 2


def period_column(question: str, headers: Sequence[str]) -> str | None:
    """Return the header of the month, or the year, that a question names; None if none is, or several are."""
    found = _columns_of_period(question, headers)
    return found[0] if found and len(found) == 1 else None


def lacks_period(question: str, row: Cells) -> bool:
    """Return whether a row has a number for each of several months, or years, but not for the question's."""
    return _columns_of_period(question, [header for header, _ in row]) == []


def _columns_of_period(question: str, headers: Sequence[str]) -> list[str] | None:
    """Return the headers with the question's only month or year; None unless the columns are such periods."""
    dates = dates_of(question)
    months, years = {month for _, month, _ in dates if month}, {year for year, _, _ in dates if year}
    by_month = {header: _month(header) for header in headers if MONTH_HEADER.fullmatch(header)}
    if len(months) == 1 and len(by_month) >= MIN_MONTHS:
        return [header for header, month in by_month.items() if month in months]
    by_year = {header: _years(header) for header in headers if _years(header)}
    if len(years) == 1 and not months and len(by_year) >= MIN_YEARS:
        return [header for header, each in by_year.items() if years & each]
    return None


def _month(header: str) -> int:
    match = MONTH_HEADER.fullmatch(header)
    return next(number for number, names in enumerate(MONTHS, 1) if match and re.fullmatch(names, match["month"], re.I))


def _years(header: str) -> set[int]:
    """Return the years of a header; '2024/25' is both."""
    found = set[int]()
    for year, last in YEARS.findall(header):
        found |= {int(year), int(year[:2] + (last or year[2:]))}
    return found
