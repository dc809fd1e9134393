"""Which row or column of a table has the superlative that a question asks for: 'Which model is the lightest?'."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from engine.prompt.followups import YEAR
from engine.prompt.overlap import content_stems
from engine.prompt.question_kind import AUXILIARY
from engine.prompt.tables.amounts import DIGITS, NUMBER, separators, signed_number
from engine.prompt.tables.columns import (
    MIN_SHARE,
    PERSON_HEADER,
    TOTAL,
    Cells,
    data_rows,
    is_total,
    requested_header,
    requested_word,
)
from engine.prompt.tables.conditions import conditions, date_column, rows_that_meet
from engine.prompt.tables.dates import MONTHS, are_day_first, full_date

LEAST = (
    r"least|fewest|lowest|smallest|shortest|cheapest|lightest|earliest|slowest|quietest|youngest|narrowest|coldest|thinnest"
    r"|wenigsten|geringste\w*|niedrigste\w*|kleinste\w*|k\u00fcrzeste\w*|billigste\w*|g\u00fcnstigste\w*|leichteste\w*"
    r"|fr\u00fcheste\w*|langsamste\w*|leiseste\w*|j\u00fcngste\w*|schmalste\w*|k\u00e4lteste\w*"
)
EARLIEST = r"earliest|oldest|first(?=\W*$)|fr\u00fcheste\w*|\u00e4lteste\w*|zuerst"
LATEST = (
    r"latest|newest|most recent(?:ly)?|last(?=\W*$)|neue?ste\w*|aktuellste\w*|j\u00fcngste\w*|sp\u00e4teste\w*|zuletzt"
)
MOST = (
    rf"{LATEST}|{EARLIEST}|most|highest|biggest|largest|greatest|longest|heaviest|fastest|loudest|widest|tallest|dearest|top"
    r"|hottest|warmest|deepest|thickest"
    r"|meisten|h\u00f6chste\w*|gr\u00f6\u00dfte\w*|l\u00e4ngste\w*|schwerste\w*|w\u00e4rmste\w*"
    r"|schnellste\w*|teuerste\w*|lauteste\w*|breiteste\w*|tiefste\w*"
)
ASKS_WHICH = re.compile(r"\b(?:which|who|whose|welche[rsnm]?|wer|wo|where|what(?!['\u2019]s| is))\b", re.I)
ASKS_WHAT = re.compile(r"\bwhat(?:['\u2019]s| is)\b|\bwas ist\b", re.I)
ORDINAL = re.compile(
    r"\b(?:second|third|fourth|fifth|\d+(?:nd|rd|th)?|two|three|four|five|zwei(?:t\w*)?|drei|dritt\w*|vier\w*) $", re.I
)  # before a superlative: the second, or several
PRONOUN = re.compile(r"most|least|fewest|meisten|wenigsten", re.I)  # 'what is the most that I may spend?'
SUPERLATIVE = re.compile(
    rf"(?:(?:{ASKS_WHICH.pattern}|{ASKS_WHAT.pattern}).{{0,200}}?\b|^(?:the |der |die |das )?)"
    rf"(?<!\bat )(?!\w+stens\b)(?P<superlative>(?P<least>{LEAST})|{MOST})\b(?! of\b)",
    re.I | re.S,
)
ORDER = re.compile(rf"{LATEST}|{EARLIEST}", re.I)  # in time
SUBJECT = re.compile(rf"\b(?:which|what|welche[rsnm]?)\s+((?:\w+\s+){{1,4}}?)(?:{AUXILIARY})\b", re.I)
DIMENSIONS = (  # adjectives, and what a header or label calls that which they compare
    (r"light|heav|leicht|schwer", r"weight|mass\b|gewicht|masse\b"),
    (
        r"cheap|dear|\w* ?expensive|billig|g\u00fcnstig|teuer",
        r"price|cost|fee|rent\b|rate\b|amount|preis|kosten|geb\u00fchr|miete|betrag",
    ),
    (r"quiet|loud|leise|laut", r"noise|sound|loudness|lautst\u00e4rke|ger\u00e4usch|l\u00e4rm"),
    (r"fast|slow|schnell|langsam", r"speed|tempo\b|geschwindigkeit|time\b|duration|zeit\b|dauer"),
    (r"wide|narrow|breit|schmal", r"width|breite"),
    (r"tall", r"height"),
    (r"big|larg|gr\u00f6\u00dfte", r"amount|total|betrag|summe|gesamt"),
    (r"long|short|l\u00e4ng|k\u00fcrz", r"length|duration|l\u00e4nge|dauer|laufzeit"),
    (r"deep|tief", r"depth|tiefe"),
    (r"thick|thin", r"thickness|diameter"),
    (r"young|old|j\u00fcng|\u00e4lte", r"\bage\b|alter\b"),
    (r"hot|warm|cold|w\u00e4rm|k\u00e4lt", r"temperatur"),
)
SPEED = re.compile(r"fast|slow|schnell|langsam", re.I)
UNIT = re.compile(rf"(?:([\u20ac\u00a3$])\s?)?(?<![\w.,-]){DIGITS}\s?([^\W\d_]+|[%\u20ac\u00a3$\u00b0]\w?)?")
TIME_UNITS = {"ms", "s", "sec", "min", "h", "hr", "hrs", "second", "minut", "hour", "day", "week", "month"}
TIME_UNITS |= {"sekund", "stund", "tag", "woch", "monat", "std"}
PERIODS = (  # words for the columns that are compared, and the headers of these
    (r"months?|monat\w*", rf"(?:{'|'.join(MONTHS)})\b"),
    (r"years?|jahr\w*", YEAR.pattern),
    (r"quarters?|quartal\w*", r"q[1-4]\b|[1-4]\. quartal"),
)
MIN_ROWS = 3  # of a column that is compared
MIN_CELLS = 2  # of a row


class Extreme(NamedTuple):
    """The row that answers, and the cell or header that has the superlative; '' if the row does not decide that."""

    row: int
    name: str
    is_certain: bool  # the question names what is compared
    is_header: bool = False  # the columns are compared


@dataclass(frozen=True)
class Values:
    """The numbers of a column below its header, or of a row after its label, with the place of each."""

    title: str
    numbers: Sequence[tuple[float, int]]
    units: frozenset[str]
    is_clear: bool  # whether the numbers can be read


def extreme_cell(question: str, rows: Sequence[Cells], similarities: Mapping[str, float]) -> Extreme | None:
    """Return where a table has the superlative that a question asks for; None if that is unclear or units differ.

    Where the columns are the things compared, the question names a row: 'Weight', or what 'lightest' compares.

    similarities  of the headers and labels to the question; they decide what is compared if no word does
    """
    match = SUPERLATIVE.search(question)
    if match is None or ORDINAL.search(question[: match.start("superlative")]):
        return None
    if ASKS_WHAT.match(match[0]):  # for a value, not for what has it
        best = None if is_amount(question, match) else _extreme_row(question, rows, match, {})
        return Extreme(best.row, "", True) if best and best.is_certain and not best.is_header else None
    return _extreme_row(question, rows, match, similarities)


def _extreme_row(
    question: str, rows: Sequence[Cells], match: re.Match[str], similarities: Mapping[str, float]
) -> Extreme | None:
    """Return where a table has the superlative that was found in a question; None if that is unclear."""
    dimension = _dimension(question, match)
    subject = SUBJECT.search(question)
    stems = content_stems(question) - content_stems(match["superlative"])
    of_things = stems - content_stems(subject[1] if subject else requested_word(question) or "")

    def named(title: str, words: set[str]) -> int:
        return len(words & content_stems(title)) + bool(dimension and dimension.search(title))

    if period := _period(question, rows):
        return _extreme_period(rows, period, of_things, match)
    columns, lines = _columns(rows), _lines(rows)
    in_columns = max((named(column.title, stems) for column in columns), default=0)
    line = max(lines, key=lambda each: (named(each.title, of_things), similarities.get(each.title, 0.0)), default=None)
    is_reversed = bool(SPEED.match(match["superlative"]))
    if line and not in_columns and named(line.title, of_things):
        row = line.numbers[0][1]
        best = _best(line, bool(match["least"]), is_reversed)
        cells = [cell for cell in rows[row][1:] if not TOTAL.match(cell[0])]
        name = "" if best is None else cells[best][0]
        return Extreme(row, name, True, is_header=bool(name))
    found = conditions(question[: match.start("superlative")] + question[match.end("superlative") :], rows)
    if found is None:
        return None
    met = set(rows_that_meet(found, rows))  # the rows that the question means
    rows_meant = _of_kind([row if index in met else () for index, row in enumerate(rows)], stems - of_things)
    dates = None
    if ORDER.fullmatch(match["superlative"]) and not any(named(column.title, stems) for column in columns):
        dates = _dates(question, rows_meant)
    columns = [dates] if dates else _columns(rows_meant)
    if not columns:
        return None

    def fit(column: Values) -> float:  # what the rows are called says less: 'Which site has the most employees?'
        return named(column.title, stems) + named(column.title, of_things) + similarities.get(column.title, 0.0)

    column = max(columns, key=fit)
    row_of = [row for _, row in column.numbers]
    is_least = bool(re.fullmatch(EARLIEST, match["superlative"], re.I) if dates else match["least"])
    best = _best(column, is_least, is_reversed)
    if best is None:
        return None
    own = rows[row_of[best]]
    label = requested_header(question, [header for header, _ in own])
    named_rows = [dict(row).get(label or row[0][0], "") for row in rows_meant if row]
    is_other = bool(re.match("who|wer", question, re.I)) and not PERSON_HEADER.fullmatch(own[0][0])
    if is_amount(question, match) and (is_other or len(set(named_rows)) < len(named_rows)):
        return None  # each has several rows, which are to be added up
    return Extreme(row_of[best], dict(own).get(label or "", own[0][1]), bool(dates or named(column.title, stems)))


def _period(question: str, rows: Sequence[Cells]) -> list[str]:
    """Return the headers that are periods of the kind that the question asks for: 'Which month ...'; often none."""
    headers = list(dict.fromkeys(header for row in rows for header, _ in row[1:]))
    asked = requested_word(question)
    if asked is None or requested_header(question, headers):
        return []
    kinds = [header for word, header in PERIODS if re.fullmatch(word, asked, re.I)]
    found = [header for header in headers if kinds and re.match(kinds[0], header, re.I)]
    return found if len(found) >= MIN_ROWS else []


def _extreme_period(
    rows: Sequence[Cells], period: Sequence[str], words: Set[str], match: re.Match[str]
) -> Extreme | None:
    """Return which of the columns of a period has the superlative in the row that the words name, or in the total."""
    lines = [(index, row, [cell for cell in row if cell[0] in period]) for index, row in enumerate(rows) if row]
    lines = [line for line in lines if all(NUMBER.search(value) for _, value in line[2])]
    shared = {index: len(words & content_stems(row[0][1])) for index, row, _ in lines}
    best = [line for line in lines if shared[line[0]] == max(shared.values())]
    meant = best if best and shared[best[0][0]] else [line for line in lines if is_total(line[1])]
    if len(meant) != 1:
        return None
    row, _, cells = meant[0]
    place = _best(_values("", [(value, row) for _, value in cells]), bool(match["least"]), is_speed=False)
    return None if place is None else Extreme(row, cells[place][0], True, is_header=True)


def _of_kind(rows: Sequence[Cells], asked: Set[str]) -> list[Cells]:
    """Return rows without those that lack a word of what is asked for which others have: 'Which flour is cheapest?'."""
    headers = {stem for row in rows for header, _ in row for stem in content_stems(header)}
    words_of = [{stem for _, value in row for stem in content_stems(value)} for row in rows]
    known = asked & set().union(*words_of) - headers
    return [row if known <= words else () for row, words in zip(rows, words_of, strict=True)]


def is_amount(question: str, match: re.Match[str]) -> bool:
    """Return whether a superlative is 'most' or 'least' of something, not 'most expensive'."""
    return bool(PRONOUN.fullmatch(match["superlative"])) and _dimension(question, match) is None


def _dimension(question: str, match: re.Match[str]) -> re.Pattern[str] | None:
    """Return a pattern of what a superlative compares; None of one such as 'most'."""
    adjective = f"{match['superlative']}{question[match.end() :][:12]}"
    return next((re.compile(title, re.I) for start, title in DIMENSIONS if re.match(start, adjective, re.I)), None)


def _best(values: Values, is_least: bool, is_speed: bool) -> int | None:
    """Return the place of the extreme number; None of several, or if unclear. What takes least time is fastest."""
    if len(values.units) > 1 or not values.is_clear:
        return None
    numbers = [number for number, _ in values.numbers]
    takes_least = is_least != (is_speed and values.units <= TIME_UNITS and bool(values.units))
    best = min(numbers) if takes_least else max(numbers)
    return numbers.index(best) if numbers.count(best) == 1 else None


def _columns(rows: Sequence[Cells]) -> list[Values]:
    """Return the columns of numbers, without totals."""
    counted = list(data_rows(rows))
    found: dict[str, list[tuple[str, int]]] = {}
    for index, row in counted:
        for header, value in row[1:]:
            if header and NUMBER.search(value) and not full_date(value):
                found.setdefault(header, []).append((value, index))
    least = max(MIN_ROWS, MIN_SHARE * len(counted))
    return [_values(header, cells) for header, cells in found.items() if len(cells) >= least]


def _dates(question: str, rows: Sequence[Cells]) -> Values | None:
    """Return the dates of the column that a question means, as numbers; None if that is unclear."""
    title = date_column(question, [row for row in rows if row], is_strict=True)
    cells = [(dict(row).get(title or "", ""), index) for index, row in data_rows(rows)]
    dates = [(date, index) for value, index in cells if (date := full_date(value))]
    if title is None or len(dates) < max(MIN_ROWS, MIN_SHARE * len(cells)):
        return None
    numbers = [((year or 0) * 10_000 + (month or 0) * 100 + (day or 0), index) for (year, month, day), index in dates]
    return Values(title, numbers, frozenset(), are_day_first(value for value, _ in cells))


def _lines(rows: Sequence[Cells]) -> list[Values]:
    """Return the rows whose cells are comparable: numbers, each below the name of what has it."""
    found = []
    for index, row in enumerate(rows):
        cells = [(header, value) for header, value in row[1:] if not TOTAL.match(header)]
        if len(cells) >= MIN_CELLS and all(header and NUMBER.search(value) for header, value in cells):
            found.append(_values(row[0][1], [(value, index) for _, value in cells]))
    return found


def _values(title: str, cells: Iterable[tuple[str, int]]) -> Values:
    numbers, digits, units = [], list[str](), set[str]()
    for value, row in cells:
        if number := NUMBER.search(value):
            digits.append(number["digits"])
            numbers.append((signed_number(number), row))
        match = UNIT.search(value)
        units |= {_unit(part) for part in (match.groups() if match else ()) if part}
    return Values(title, numbers, frozenset(units), separators(digits) is not None)


def _unit(word: str) -> str:
    """Return a unit without the ending of a plural."""
    return word.lower().rstrip("sen") if len(word) > 3 else word.lower()
