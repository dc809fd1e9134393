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
    r"\b(?:(?P<before>before|vor)|(?P<after>after|nach)|(?P<since>since|seit|ab)"
    r"|(?P<until>until|till|up to|by|bis))(?: (?:the|dem|zum))? $",
    re.I,
)
BEFORE_MAY = re.compile(r"\b(?:in|of|during|since|before|after) $", re.I)
BEFORE_AMOUNT = re.compile(
    r"(?:[\u20ac\u00a3$]|\b(?:over|above|under|below|than|least|most|\u00fcber|unter|als|mindestens|h\u00f6chstens))"
    r" ?$",
    re.I,
)

PERIOD = re.compile(
    r"\b(?:between|from|zwischen|vo[mn])\b.* (?:to|till|until|and|bis(?: zum)?|und) |\d ?[-\u2013] ?\d", re.I
)
SLASHES = re.compile(r"(\d\d?)/(\d\d?)/(?:19|20)\d\d\b")
MONTHS_PER_YEAR = 12

Date = tuple[int | None, int | None, int | None]  # year, month and day; None: any


@dataclass(frozen=True, slots=True)
class DateTest:
    """A date of a question, and how the dates of cells relate to it."""

    text: str  # with the word that says how: 'since 1 March'
    is_met: Callable[[str], bool]  # by a cell
    needs_one_year: bool  # whether it is unclear for cells of several years


def date_tests(question: str) -> list[DateTest] | None:
    """Return the dates of a question; None if they may be a period, such as 'from March to May'."""
    found = []
    for match in _dates_of(question):
        relation = RELATION.search(question[: match.start()])
        kind = relation.lastgroup if relation and relation.lastgroup else "in"
        date = _date(match)
        text = f"{relation[0] if relation else ''}{match[0]}".strip()
        found.append(DateTest(text, _is_at(kind, date), kind != "in" and date[0] is None))
    return None if found and PERIOD.search(question) else found


def full_date(value: str) -> Date | None:
    """Return the date with which a cell begins; None of one without year and month."""
    match = DATE.match(value.strip())
    date = _date(match) if match else None
    return date if date and date[0] and date[1] else None


def are_day_first(values: Iterable[str]) -> bool:
    """Return whether dates with slashes are known to begin with the day: '28/04/2025', not '04/28/2025'."""
    pairs = [(int(match[1]), int(match[2])) for value in values if (match := SLASHES.match(value.strip()))]
    return not pairs or (max(pairs)[0] > MONTHS_PER_YEAR >= max(month for _, month in pairs))


def _dates_of(question: str) -> Iterator[re.Match[str]]:
    """Yield the dates of a question: 'may' is a month only after a preposition, and '2000 euros' is no year."""
    for match in DATE.finditer(question):
        before, after = question[: match.start()], question[match.end() :].split(maxsplit=1)[:1]
        is_verb = match[0].lower() == "may" and not BEFORE_MAY.search(before)
        is_amount = bool(match["y4"] and (BEFORE_AMOUNT.search(before) or currency("".join(after))))
        if not is_verb and not is_amount:
            yield match


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


def _is_at(kind: str, date: Date) -> Callable[[str], bool]:
    """Return whether a cell's date is in a day, month or year, or before, after, since or until that."""

    def is_met(value: str) -> bool:
        own = full_date(value)
        if own is None:
            return False
        known = [(mine or 0, other) for mine, other in zip(own, date, strict=True) if other is not None]
        mine, others = [pair[0] for pair in known], [pair[1] for pair in known]
        is_before, is_after = mine < others, mine > others
        return {"before": is_before, "after": is_after, "since": not is_before, "until": not is_after}.get(
            kind, mine == others
        )

    return is_met
