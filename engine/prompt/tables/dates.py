"""Dates in questions and in table cells: 'in March 2025', 'since 1 May', 'vor dem 3.4.2025'."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from engine.prompt.tables.amounts import currency

MONTHS = (
    *(r"jan(?:uary|uar)?", r"feb(?:ruary|ruar)?", r"mar(?:ch)?|m\u00e4rz|maerz", r"apr(?:il)?", r"may|mai"),
    *(r"june?|juni", r"july?|juli", r"aug(?:ust)?", r"sept?(?:ember)?", r"o[ck]t(?:ober)?", r"nov(?:ember)?"),
    r"de[cz](?:ember)?",
)
DATE = re.compile(
    rf"(?P<y1>(?:19|20)\d\d)-(?P<m1>\d\d?)-(?P<d1>\d\d?)\b|\b(?P<d2>\d\d?)[./](?P<m2>\d\d?)[./](?P<y2>(?:19|20)\d\d)\b"
    rf"|\b(?:(?P<d3>\d\d?)(?:\.|st|nd|rd|th)? (?:of )?)?(?P<month>{'|'.join(MONTHS)})\b\.?"
    rf"(?: (?P<d4>\d\d?)(?:st|nd|rd|th)?\b(?!\d))?(?:,? (?P<y3>(?:19|20)\d\d)\b)?|\b(?P<y4>(?:19|20)\d\d)\b",
    re.I,
)
RELATION = re.compile(
    r"\b(?:(?P<since>(?:on|in) or after|since|seit|ab)|(?P<until>(?:on|in) or before|until|till|up to|by|bis)"
    r"|(?P<before>before|prior to|vor)|(?P<after>after|nach))(?: (?:the|dem|zum))? $",
    re.I,
)
UNCLEAR_PART = re.compile(
    r"\b(?:end|beginning|start|late|early|mid|middle|week|half|ende|anfang|mitte|woche)\W+(?:of |in )?(?:the )?$", re.I
)
FROM_ON = re.compile(r"\s(?:on(?:wards?)?|an)\b", re.I)  # 'from March on'
AFTER_VERB = re.compile(r"\b(?:did|does|do|has|have|had|hat|haben) $", re.I)  # 'did Jan ...?', a name
BEFORE_MAY = re.compile(r"\b(?:in|of|during|since|before|after) $", re.I)
BEFORE_AMOUNT = re.compile(
    r"(?:[\u20ac\u00a3$]|\b(?:over|above|under|below|than|least|most|\u00fcber|unter|als|mindestens|h\u00f6chstens))"
    r" ?$",
    re.I,
)

PERIOD_START = re.compile(r"\b(?:between|from|zwischen|vo[mn])(?: the| dem)? $", re.I)
BETWEEN_DATES = re.compile(
    r" ?(?:(to|till|until|through|bis|[-\u2013])|and|und) ?(?:(?:the )?end of |the |dem |zum |ende )?", re.I
)
PERIOD = re.compile(
    r"\b(?:between|from|zwischen|vo[mn])\b.* (?:to|till|until|and|bis(?: zum)?|und) |\d ?[-\u2013] ?\d", re.I
)
YEAR_OF_PART = r"(?:(?: of|,)? (?P<{}>(?:19|20)\d\d)\b)"
PART_OF_YEAR = re.compile(  # halves only of a year that is named: others may be of a match
    r"\b(?:the )?(?:(?:q(?P<q>[1-4])|(?:(?P<n1>1st|1\.|first|erste[nms]?)|(?P<n2>2nd|2\.|second|zweite[nms]?)"
    r"|(?P<n3>3rd|3\.|third|dritte[nms]?)|(?P<n4>4th|4\.|fourth|vierte[nms]?)) (?:quarter|quartal))\b"
    rf"{YEAR_OF_PART.format('year')}?"
    r"|(?:h(?P<h>[12])|(?:(?P<h1>1st|1\.|first|erste[nms]?)|(?P<h2>2nd|2\.|second|zweite[nms]?)) (?:half|halbjahr))\b"
    rf"{YEAR_OF_PART.format('half_year')})",
    re.I,
)
SLASHES = re.compile(r"(\d\d?)/(\d\d?)/(?:19|20)\d\d\b")
MAX_RELATION_CHARS = 40  # before a date
MONTHS_PER_YEAR = 12

Date = tuple[int | None, int | None, int | None]  # year, month and day; None: any


@dataclass(frozen=True, slots=True)
class DateTest:
    """A date or period of a question, and how the dates of cells relate to it."""

    text: str  # with the word that says how: 'since 1 March'
    is_met: Callable[[str], bool]  # by a cell
    needs_one_year: bool  # whether it is unclear for cells of several years


def date_tests(question: str) -> list[DateTest] | None:
    """Return the dates and periods of a question; None if one is unclear, such as 'from 3 to 7 March'."""
    found = []
    rest = question
    for start, end, first, last in _periods(question):
        before = question[max(0, start - MAX_RELATION_CHARS) : start]
        if UNCLEAR_PART.search(before) or FROM_ON.match(question, end) or AFTER_VERB.search(before):
            return None
        relation = RELATION.search(before)
        kind = relation.lastgroup if relation and relation.lastgroup else "in"
        text = f"{relation[0] if relation else ''}{question[start:end]}".strip()
        needs_one_year = first[0] is None and (kind != "in" or first != last)
        found.append(DateTest(text, _is_at(kind, first, last), needs_one_year))
        rest = f"{rest[:start]}{' ' * (end - start)}{rest[end:]}"
    return None if found and PERIOD.search(rest) else found


def full_date(value: str) -> Date | None:
    """Return the date with which a cell begins; None of one without year and month."""
    match = DATE.match(value.strip())
    date = _date(match) if match else None
    return date if date and date[0] and date[1] else None


def are_day_first(values: Iterable[str]) -> bool:
    """Return whether dates with slashes are known to begin with the day: '28/04/2025', not '04/28/2025'."""
    pairs = [(int(match[1]), int(match[2])) for value in values if (match := SLASHES.match(value.strip()))]
    return not pairs or (max(pairs)[0] > MONTHS_PER_YEAR >= max(month for _, month in pairs))


def dates_of(question: str) -> list[Date]:
    """Return the dates that a question names, in their order."""
    return [_date(match) for match in _dates_of(question)]


def _dates_of(question: str) -> Iterator[re.Match[str]]:
    """Yield the dates of a question: 'may' is a month only after a preposition, and '2000 euros' is no year."""
    for match in DATE.finditer(question):
        before, after = question[: match.start()], question[match.end() :].split(maxsplit=1)[:1]
        is_verb = match[0].lower() == "may" and not BEFORE_MAY.search(before)
        is_amount = bool(match["y4"] and (BEFORE_AMOUNT.search(before) or currency("".join(after))))
        if not is_verb and not is_amount:
            yield match


def _periods(question: str) -> Iterator[tuple[int, int, Date, Date]]:
    """Yield where a question has a date, a quarter, a half or a period between two dates, and its first and last date.

    The year of a period's last date is that of its first too.
    """
    parts = list(PART_OF_YEAR.finditer(question))
    for match in parts:
        is_half = match["half_year"] is not None
        names = ("h", "h1", "h2") if is_half else ("q", "n1", "n2", "n3", "n4")
        number = int(match[names[0]] or next(n for n, name in enumerate(names) if n and match[name]))
        months = MONTHS_PER_YEAR // (2 if is_half else 4)
        year, end = _number(match["half_year"] or match["year"]), number * months
        yield match.start(), match.end(), (year, end - months + 1, None), (year, end, None)
    dates = [
        each for each in _dates_of(question) if not any(part.start() <= each.start() < part.end() for part in parts)
    ]
    while dates:
        first = dates.pop(0)
        start, end = first.start(), first.end()
        before = PERIOD_START.search(question[:start])
        between = BETWEEN_DATES.fullmatch(question[end : dates[0].start()]) if dates else None
        if between and (before or between[1]):
            last = dates.pop(0)
            year, month, day = _date(first)
            yield (before or first).start(), last.end(), (year or _date(last)[0], month, day), _date(last)
        else:
            yield start, end, _date(first), _date(first)


def _date(match: re.Match[str]) -> Date:
    group = match.groupdict()
    if name := group["month"]:
        month: int | None = next(n for n, names in enumerate(MONTHS, start=1) if re.fullmatch(names, name, re.I))
    else:
        month = _number(group["m1"] or group["m2"])
    year = _number(next((group[key] for key in ("y1", "y2", "y3", "y4") if group[key]), None))
    return year, month, _number(next((group[key] for key in ("d1", "d2", "d3", "d4") if group[key]), None))


def _number(digits: str | None) -> int | None:
    return int(digits) if digits else None


def _is_at(kind: str, first: Date, last: Date) -> Callable[[str], bool]:
    """Return whether a cell's date is in a period, or before, after, since or until that."""

    def is_met(value: str) -> bool:
        own = full_date(value)
        if own is None:
            return False
        is_before, is_after = _compare(own, first) < 0, _compare(own, last) > 0
        return {"before": is_before, "after": is_after, "since": not is_before, "until": not is_after}.get(
            kind, not is_before and not is_after
        )

    return is_met


def _compare(own: Date, other: Date) -> int:
    """Return whether a date is before (-1), in (0) or after (1) a day, month or year."""
    known = [(mine or 0, part) for mine, part in zip(own, other, strict=True) if part is not None]
    mine, others = [pair[0] for pair in known], [pair[1] for pair in known]
    return (mine > others) - (mine < others)
