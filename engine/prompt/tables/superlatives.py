"""Which row or column of a table has the superlative that a question asks for: 'Which model is the lightest?'."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from engine.prompt.followups import YEAR
from engine.prompt.overlap import MIN_PART, content_stems, content_words, stem
from engine.prompt.question_kind import AUXILIARY, PREPOSITION, split_parts
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
from engine.prompt.tables.condition import without
from engine.prompt.tables.conditions import conditions, date_column, rows_that_meet
from engine.prompt.tables.dates import MONTHS, are_day_first, full_date
from engine.prompt.tables.strict import EMPTY, MEAN, is_named, words_of
from engine.text import split_words

LEAST = (
    r"least|fewest|lowest|smallest|shortest|cheapest|lightest|earliest|slowest|quietest|youngest|narrowest|coldest|thinnest"
    r"|wenigsten|geringste\w*|niedrigste\w*|kleinste\w*|k\u00fcrzeste\w*|billigste\w*|g\u00fcnstigste\w*|leichteste\w*"
    r"|fr\u00fcheste\w*|langsamste\w*|leiseste\w*|j\u00fcngste\w*|schmalste\w*|k\u00e4lteste\w*"
)
EARLIEST = r"earliest|oldest|first(?=\W*$)|fr\u00fcheste\w*|\u00e4lteste\w*|zuerst"
LATEST = (
    r"latest|newest|youngest|most recent(?:ly)?|last(?=\W*$)|neue?ste\w*|aktuellste\w*|j\u00fcngste\w*"
    r"|sp\u00e4teste\w*|zuletzt"
)
MOST = (
    rf"{LATEST}|{EARLIEST}|most|highest|biggest|largest|greatest|longest|heaviest|fastest|loudest|widest|tallest|dearest|top"
    r"|hottest|warmest|deepest|thickest"
    r"|meisten|h\u00f6chste\w*|gr\u00f6\u00dfte\w*|l\u00e4ngste\w*|schwerste\w*|w\u00e4rmste\w*"
    r"|schnellste\w*|teuerste\w*|lauteste\w*|breiteste\w*|tiefste\w*"
)
ASKS_WHICH = re.compile(r"\b(?:which|who|whose|welche[rsnm]?|wer|wo|where|what(?!['\u2019]?s| is))\b", re.I)
ASKS_WHAT = re.compile(r"\bwhat(?:['\u2019]?s| is)\b|\bwas ist\b", re.I)
ORDINAL = re.compile(
    r"\b(?:second|third|fourth|fifth|\d+(?:nd|rd|th)?|two|three|four|five|zwei(?:t\w*)?|drei|dritt\w*|vier\w*)[ -]$",
    re.I,
)  # before a superlative: the second, or several
SEVERAL = re.compile(
    r"\b(?:two|three|four|five|six|ten|\d+|zwei|drei|vier|f\u00fcnf|zehn) (?:\w+ ){1,2}"
    r"(?:are|were|have|sind|waren|haben)\b",
    re.I,
)
DERIVED = re.compile(  # what no cell says, unless a header does
    r"\b(?:f[ae]ll(?:en)?|drop(?:ped)?|r[io]se|risen|increas\w*|decreas\w*|gr[eo]w\w*|chang\w*|improv\w*|difference|gap|overrun"
    r"|over budget|conceded|per|gestiegen|gefallen|gesunken|differenz|pro)\b",
    re.I,
)
EXCEPT = re.compile(
    r"\b(?:except|exclud\w*|without|not counting|other than|apart from|besides|ohne|au\u00dfer|bis auf)\b", re.I
)
GENERIC = re.compile(  # words for what the rows are, and verbs that say nothing
    r"\b(?:ones?|items?|things?|products?|articles?|models?|options?|company|companies|firms?|suppliers?|providers?"
    r"|places?|bills?|entry|entries|records?|orders?|bookings?|purchases?|payments?|expenses?|person|people"
    r"|employees?|members?|staff|kinds?|types?|of the year|so far|ever|together|costs?|pays?|sells?|uses?|needs?"
    r"|takes?|took|provides?|offers?|contains?|holds?|zusammen|produkt\w*|artikel|modelle?|firma|anbieter"
    r"|mitarbeiter\w*|kostet|braucht|verbraucht)\b",
    re.I,
)
NOUN_END = re.compile(rf"{PREPOSITION}|{AUXILIARY}|of|with|without|than|that|which|who|so|all|do|have|cost|costs|ever")
WHO = re.compile(r"(?:who|wer)\b", re.I)
AGE = re.compile(r"\bage\b|\balter\b", re.I)
TIME_TITLE = re.compile(
    r"\btimes?\b|duration|zeit|dauer|\b(?:days?|hours?|minutes?|seconds?|min|sec|tage|stunden)\b", re.I
)
MAX_NOUN_WORDS = 4
MAX_KIND_WORDS = 5  # of a cell that says what kind of thing its row is
GERMAN = re.compile(r"ste[mnrs]?$|meisten|wenigsten", re.I)  # of a superlative
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


def extreme_cell(
    question: str, rows: Sequence[Cells], similarities: Mapping[str, float], about: str = ""
) -> Extreme | None:
    """Return where a table has the superlative that a question asks for; None if that is unclear or units differ.

    Where the columns are the things compared, the question names a row: 'Weight', or what 'lightest' compares.

    similarities  of the headers and labels to the question; they decide what is compared if no word does
    about  the name of the document, and the headings above the table
    """
    match = SUPERLATIVE.search(question)
    if match is None or not rows:
        return None
    if ORDINAL.search(question[: match.start("superlative")]) or SEVERAL.search(question):
        return None
    headers = " ".join({header for row in rows for header, _ in row})
    is_derived = any(word.lower() not in headers.lower() for word in DERIVED.findall(question))
    if is_derived or EXCEPT.search(question) or MEAN.search(question):  # nothing that a cell says
        return None
    asked = _Superlative(question, match, about)
    if not ASKS_WHAT.match(match[0]):
        return _extreme_row(asked, rows, similarities)
    best = None if asked.is_amount else _extreme_row(asked, rows, {})  # for a value, not for what has it
    return best._replace(name=best.name if best.is_header else "") if best and best.is_certain else None


class _Superlative:
    """A superlative in a question, and what the words around it may name."""

    def __init__(self, question: str, match: re.Match[str], about: str) -> None:
        subject = SUBJECT.search(question)
        self.question, self.about = question, about
        self.text: str = match["superlative"]
        self.before, self.after = question[: match.start("superlative")], question[match.end("superlative") :]
        self.is_least = bool(match["least"])
        self.is_amount = is_amount(question, match)
        self.is_speed = bool(SPEED.match(self.text))
        self.is_order = bool(ORDER.fullmatch(self.text))
        self.dimension = _dimension(question, match)
        requested = content_words(subject[1] if subject else requested_word(question))
        after = self._noun_after()
        self.asked = requested | after  # words for what has it
        self.counted = set(map(stem, after)) if self.is_amount else set[str]()  # 'beds' of 'the most beds'
        self.stems = content_stems(question) - content_stems(self.text)
        self.of_things = self.stems - set(map(stem, requested))  # of what is compared, perhaps

    def named(self, title: str, words: Set[str]) -> int:
        """Return how much a header or label has of what is compared: words, and what an adjective compares."""
        return len(words & content_stems(title)) + bool(self.dimension and self.dimension.search(title))

    def fit(self, title: str) -> int:
        """Return the same; what the rows are called says less: 'Which site has the most employees?'."""
        is_counted = bool(self.counted & content_stems(title))
        return self.named(title, self.stems) + self.named(title, self.of_things) + MAX_NOUN_WORDS * is_counted

    def unknown_words(self, rows: Sequence[Cells], understood: Iterable[str]) -> set[str]:
        """Return the words of the question that neither a table nor what it is about has: they may be conditions.

        understood  parts of the question that are conditions
        """
        adjective = split_words(self.after)[:1] if self.dimension and PRONOUN.fullmatch(self.text) else []
        part = next(filter(SUPERLATIVE.search, split_parts(self.question)), self.question)
        part = without(part.replace(f"single {self.text}", " ").replace(self.text, " ", 1), understood)
        words = words_of(part, (*EMPTY, GENERIC)) - set(adjective)
        known = {word for row in rows for cell in row for text in cell for word in split_words(text)}
        known |= set(map(stem, known))
        verbs = "|".join([AUXILIARY, *(word for word, _ in PERIODS)])
        names = content_words(self.about)
        words -= {word for word in words if {word, stem(word)} & known or is_named(word, names)}
        parts = {word for word in words & self.asked if GERMAN.search(self.text) and len(word) >= MIN_PART}
        unknown = words - {word for word in parts if any(each.endswith(word) for each in known)}  # 'Mehl'
        return {word for word in unknown if not re.fullmatch(verbs, word)}

    def _noun_after(self) -> set[str]:
        """Return the words up to the next preposition or verb: 'cheapest organic flour in Rome'."""
        words = split_words(re.split(r"[^\w\s'-]", self.after)[0])
        words = words[bool(PRONOUN.fullmatch(self.text)) and self.dimension is not None :]
        nouns = itertools.takewhile(lambda word: not NOUN_END.fullmatch(word), words[:MAX_NOUN_WORDS])
        return content_words(" ".join(nouns))


def _extreme_row(asked: _Superlative, rows: Sequence[Cells], similarities: Mapping[str, float]) -> Extreme | None:
    """Return where a table has the superlative of a question; None if that is unclear."""
    found = conditions(f"{asked.before}{asked.after}", rows)
    if found is None:
        return None
    kinds = [header for word, header in PERIODS if any(re.fullmatch(word, each) for each in asked.asked)]
    if kinds and not requested_header(asked.question, [header for header, _ in rows[0]]):
        return _extreme_period(asked, rows, kinds[0])
    lines = _lines(rows)
    in_columns = max((asked.named(column.title, asked.stems) for column in _columns(rows)), default=0)
    line = max(
        lines,
        key=lambda each: (asked.named(each.title, asked.of_things), similarities.get(each.title, 0.0)),
        default=None,
    )
    if line and not in_columns and not WHO.match(asked.question) and asked.named(line.title, asked.of_things):
        row = line.numbers[0][1]
        best = _best(line, asked.is_least, asked.is_speed)
        cells = [cell for cell in rows[row][1:] if not TOTAL.match(cell[0])]
        name = "" if best is None else cells[best][0]
        return Extreme(row, name, True, is_header=bool(name))
    met = set(rows_that_meet(found, rows))  # the rows that the question means
    rows_meant = _of_kind([row if index in met else () for index, row in enumerate(rows)], asked.asked)
    return _extreme_of_column(asked, rows, rows_meant, similarities, [each.words for each in found])


def _extreme_of_column(
    asked: _Superlative,
    rows: Sequence[Cells],
    rows_meant: Sequence[Cells],
    similarities: Mapping[str, float],
    understood: Sequence[str],
) -> Extreme | None:
    """Return the row of those that are meant, the others are empty, with the extreme value of the column compared.

    understood  parts of the question that say which rows are meant
    """
    columns = _columns(rows_meant)
    others = asked.of_things - set(map(stem, asked.asked))
    has_name = any(asked.named(column.title, others) for column in _columns(rows))
    dates = _dates(asked.question, rows_meant) if asked.is_order and not has_name else None
    columns = [dates] if dates else columns
    if not columns:
        return None
    column = max(columns, key=lambda each: asked.fit(each.title) + similarities.get(each.title, 0.0))
    is_only = sum(asked.fit(each.title) == asked.fit(column.title) for each in columns) == 1
    is_in_time = asked.is_order and (dates is not None or not AGE.search(column.title))
    is_least = bool(re.fullmatch(EARLIEST, asked.text, re.I)) if is_in_time else asked.is_least
    best = _best(column, is_least, asked.is_speed)
    if best is None:
        return None
    row = column.numbers[best][1]
    numeric = {each.title for each in _columns(rows)}  # 'type of room' means no number of rooms
    label = requested_header(asked.question, [header for header, _ in rows[row] if header not in numeric])
    names = [dict(each).get(label or each[0][0], "") for each in rows_meant if each]
    is_repeated = len(set(names)) < len(names)
    is_other = bool(WHO.match(asked.question)) and not PERSON_HEADER.fullmatch(rows[row][0][0])
    if asked.is_amount and (is_other or is_repeated):
        return None  # each has several rows, which are to be added up
    is_clear = is_only and not (label and is_repeated) and bool(dates or asked.fit(column.title))
    name = dict(rows[row]).get(label or "", rows[row][0][1])
    return Extreme(row, name, is_clear and not asked.unknown_words(rows, understood))


def _extreme_period(asked: _Superlative, rows: Sequence[Cells], kind: str) -> Extreme | None:
    """Return which of the columns that are periods has the superlative, in the row that the words name or in the total.

    None if the table has no such columns, or if it is unclear what is compared.
    """
    period = {header for row in rows for header, _ in row[1:] if re.match(kind, header, re.I)}
    if len(period) < MIN_ROWS:
        return None
    lines = [(index, row, [cell for cell in row if cell[0] in period]) for index, row in enumerate(rows) if row]
    lines = [line for line in lines if all(NUMBER.search(value) for _, value in line[2])]
    shared = {index: len(asked.of_things & content_stems(row[0][1])) for index, row, _ in lines}
    meant = [line for line in lines if shared[line[0]] == max(shared.values()) > 0]
    if not meant and not asked.unknown_words(rows, ()):
        meant = [line for line in lines if is_total(line[1])]
    if len(meant) != 1:
        return None
    row, _, cells = meant[0]
    place = _best(_values("", [(value, row) for _, value in cells]), asked.is_least, is_speed=False)
    return None if place is None else Extreme(row, cells[place][0], True, is_header=True)


def _of_kind(rows: Sequence[Cells], asked: Set[str]) -> list[Cells]:
    """Keep the rows that have the question's noun, if any row has it: 'Which flour is cheapest?'; empty the others.

    A word may be the end of a compound: 'Mehl' of 'Weizenmehl'. Long texts do not say what a row is.
    """
    headers = {stem for row in rows for header, _ in row for stem in content_stems(header)}
    words = [word for word in asked if stem(word) not in headers]

    def has(row: Cells, word: str) -> bool:
        own = content_words(" ".join(value for _, value in row if len(value.split()) <= MAX_KIND_WORDS))
        return any(stem(each) == stem(word) or (len(word) >= MIN_PART and each.endswith(word)) for each in own)

    known = [word for word in words if any(has(row, word) for row in rows)]
    return [row if all(has(row, word) for word in known) else () for row in rows]


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
    is_time = (values.units <= TIME_UNITS and bool(values.units)) or bool(TIME_TITLE.search(values.title))
    takes_least = is_least != (is_speed and is_time)
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
    for index, row in data_rows(rows):
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
