"""Which rows of a table a question means: 'open orders over 500 euros in March'.

Its words and numbers decide that exactly, which a small model does not learn. A condition that these rules do not
understand leaves no rows, rather than wrong ones.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain

from engine.prompt.followups import STOP_WORD, YEAR
from engine.prompt.overlap import content_stems, content_words, stem
from engine.prompt.tables.amounts import CELL_NUMBER, are_comparable, cell_number, currency
from engine.prompt.tables.columns import (
    Cells,
    amount_column,
    column_currency,
    columns_of,
    data_rows,
    is_money,
    number_columns,
)
from engine.prompt.tables.compared_columns import ComparedColumns, find_compared_columns
from engine.prompt.tables.dates import DATE, are_day_first, date_tests, full_date
from engine.prompt.tables.limits import Limit, find_limits, without_limits
from engine.prompt.tables.wording import HOW_MUCH, has_forms, has_words, in_table_words, is_form
from engine.prompt.tables.yes_no import YES_OR_NO, denies, said_column, said_word, says_yes
from engine.text import WORD, split_words

EXCLUDED = re.compile(r"(?:\b(?:not|never|nicht)|n['\u2019]t) (?:(?:the|those|yet|been|die|noch) )*(\w+)", re.I)
NOT = "not "  # before the values that a condition excludes
NEGATED = re.compile(r"(?:\b(?:not?|never|nicht|kein\w*)|n['\u2019]t) $", re.I)  # what follows
DENIED = r"(?:\b(?:not?|never|nicht|kein\w*)|n['\u2019]t)(?: (?:yet|been|any|noch|als))*"
NAME = re.compile(r"\b(?:of|from|by|for|to|von|vom|f\u00fcr|an|bei)(?: the| der| dem)? ([A-Z\u00c4\u00d6\u00dc]\w+)")
DIRECTION = re.compile(r"\b(?:from|von) [A-Z]\w+ (?:to|nach) [A-Z]|\bto [A-Z]\w+ from [A-Z]")
ASKS_WHAT_DID = r"\b(?:did|does|do) (?!(?:the|an?|all|any|these|those|my|our) )\w+ "
OR = re.compile(r"\b(?:or|oder)\b", re.I)
FREE_OF_CHARGE = re.compile(
    r"\b(?:free|(?:no|without|at no) (?:charge|cost|fee)|costs? nothing|kostenlos\w*|gratis|umsonst|kostenfrei\w*)\b"
    r"|n['\u2019]t cost\b|\bnot cost\b|\bkoste\w* nichts\b",
    re.I,
)
FREE = re.compile(
    r"free(?: of charge)?|no charge|kostenlos|kostenfrei|gratis|[\u20ac\u00a3$] ?0(?:[.,]00)?|0(?:[.,]00)? \u20ac", re.I
)
NOT_UNDERSTOOD = re.compile(  # times, comparisons of columns, and exceptions
    r"\b(?:(?:last|this|next|past|current|previous) (?:\w+ )?(?:day|week|month|year|quarter|season)s?|recent\w*|today"
    r"|yesterday|tomorrow|weekends?|except|without|\w+ than|both|(?:in|out of) stock|auf lager|vorr\u00e4tig"
    r"|(?:any|every)(?:one|body|thing) but|with the exception|bis auf|abgesehen|beide\w*|sowohl|as many|as much"
    r"|(?:letzte|diese|n\u00e4chste)[mnrs]? (?:\w+ )?(?:tag|woche|monat|jahr|quartal)\w*|heute|gestern|wochenende\w*"
    r"|ohne|au\u00dfer|\w+er als)\b",
    re.I,
)
UNCLEAR = re.compile(  # negations other than 'not', and limits without a number: 'below the reorder level'
    r"\b(?:no(?! \d)|none|nothing|neither|nor|never|kein\w*|weder|nie(?:mals)?|(?:all|anything|everything) but"
    r"|exclud\w*|apart from|besides|instead of|outside|ausgenommen|statt|above|below|over|under|exceed\w*|\u00fcber"
    r"|unter)\b",
    re.I,
)
NEGATIVE_VALUE = re.compile(r"\b(?:not|no|never|none|nicht|nie|kein\w*|without|ohne)\b", re.I)
PEOPLE = re.compile(r"(?:who|wer)\b(?!.*\b(?:earn|verdien))", re.I)
ALL_ROWS = re.compile(
    r"\b(?:over|across|throughout|\u00fcber) (?:all|alle[nrs]?)\b|\b(?:whatever|regardless of) (?:the )?\w+", re.I
)
MAX_LIMITS = 8  # or dates in a question; each is looked for in all rows
MAX_VALUE_WORDS = 4  # after 'not'
NAME_VALUE = re.compile(r"[A-Z\u00c4\u00d6\u00dc\d]\S*(?: [A-Z\u00c4\u00d6\u00dc\d&]\S*){1,3}")  # of several words
MIN_SHARED = 2  # rows with a name that a part of it names
UNIT_HEADER = re.compile(r"units?|unit of measure|currency|einheit|w\u00e4hrung", re.I)
STATE_DATE = re.compile(r"birth|born|geb(?:urt|oren)|best before|expir|valid|until|g\u00fcltig|\bbis\b|ablauf", re.I)
BIRTH_DATE = re.compile(r"birth|born|geb(?:urt|oren)", re.I)
AGES = re.compile(r"\b(?:oldest|youngest|\u00e4lteste\w*|j\u00fcngste\w*)\b", re.I)
NEWEST = re.compile(r"\b(?:newest|latest|most recent(?:ly)?|neue?ste\w*)\b", re.I)
START_DATE = re.compile(r"start|join|since|began|created|opened|founded|beginn|eintritt|seit", re.I)
PLAIN_DATE = re.compile(r"date|datum|day|tag", re.I)
NUM_SHARED_LETTERS = 4


@dataclass(frozen=True, slots=True)
class Condition:
    """What a question says about the values of a column."""

    header: str
    text: str  # for the user, such as 'open', 'over 500' or 'March 2025'
    is_met: Callable[[str], bool]
    words: str  # of the question that it explains
    is_denied: bool = False  # whether the question says what is not the case

    compared: ComparedColumns | None = None  # instead of `is_met`

    def __str__(self) -> str:
        return f"{self.header}: {self.text}"

    def is_met_by(self, row: Mapping[str, str]) -> bool:
        return self.compared.is_met(row) if self.compared else self.is_met(row.get(self.header, ""))


def conditions(question: str, rows: Sequence[Cells]) -> list[Condition] | None:
    """Return a question's conditions on the rows of a table; None if one is not understood or fits no column."""
    rows = [row for _, row in data_rows(rows)]
    question = ALL_ROWS.sub(" ", HOW_MUCH.sub(" ", in_table_words(question, rows)))
    compared = find_compared_columns(question, rows)
    if compared and NEGATED.search(question[: question.index(compared.text)]):
        return None
    question = without(question, [compared.text] if compared else [])
    dates = _date_conditions(question, rows)
    if dates is None or NOT_UNDERSTOOD.search(without_limits(question)):
        return None
    rest = without(question, (each.text for each in dates))
    limits = _limit_conditions(rest, rows)
    rest = without_limits(rest)
    values = named_values(rest, rows)
    if limits is None or values is None or _names_function_word(rest, rows):
        return None
    if OR.search(rest) and EXCLUDED.search(rest):  # not this or that
        return None
    found = [*values, *dates, *limits]
    if compared:
        words = compared.text
        found.append(Condition(compared.header, words, bool, words, compared=compared))
    if any(re.search(rf"{ASKS_WHAT_DID}{re.escape(each.words.lower())}\b", rest) for each in values):
        return None  # 'How long did we work?' does not name the value 'Work'
    named = set(split_words(" ".join(each.words for each in values)))
    others = WORD.sub(lambda match: "" if match[0].lower() in named else match[0], FREE_OF_CHARGE.sub("", rest))
    understood = content_stems(" ".join(named))
    header = said_column(question, rows, is_strict=True)
    said = said_word(header, rows) if header else ""
    denial = re.search(rf"{DENIED} {re.escape(said)}\b", others, re.I) if header else None
    others = others.replace(denial[0], " ") if denial else others
    if found and UNCLEAR.search(others):
        return None
    if header:
        is_unclear = denies(others, header) and bool(found or denial)  # what is denied?
        if is_unclear or understood & content_stems(said):  # or which column is meant?
            return None
        is_no = bool(denial) or denies(others, header)
        has_date = any(each.header == header for each in found)  # 'paid in March'
        if has_date and is_no:
            return None
        if not has_date:
            found.append(Condition(header, "no" if is_no else "yes", _says_no if is_no else says_yes, said, is_no))
        understood |= content_stems(said)
    if not set(map(stem, EXCLUDED.findall(rest.lower()))) <= understood | _left_out(values, rows):
        return None
    parts = _parts_of_names(rest, rows, understood)
    found += parts
    understood |= content_stems(" ".join(each.words for each in parts))
    for name in NAME.findall(rest):
        if stem(name.lower()) not in understood and (holders := _columns_with(name, rows)):
            if len(holders) > 1:
                return None
            found.append(Condition(holders[0], name, _has_word(name), name))
    num_columns = len({each.header for each in found})
    is_choice = bool(OR.search(rest)) and num_columns > 1  # this or that column
    is_unclear = is_choice or (num_columns == 1 and bool(DIRECTION.search(rest)))  # 'from A to B'
    return None if is_unclear else found


def _names_function_word(question: str, rows: Sequence[Cells]) -> bool:
    """Return whether a question may name a value that is a function word: 'Will', 'US', 'A', 'in'."""
    values = {value.strip() for row in rows for _, value in row}
    values = {
        value for value in values if WORD.search(value) and not YES_OR_NO.fullmatch(value) and not content_stems(value)
    }
    _, _, after_first = question.partition(" ")
    return any(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", after_first) for value in values)


def rows_that_meet(found: Sequence[Condition], rows: Sequence[Cells]) -> list[int]:
    """Return the rows that meet all conditions, without totals."""
    return [index for index, row in data_rows(rows) if all(each.is_met_by(dict(row)) for each in found)]


def without(question: str, texts: Iterable[str]) -> str:
    """Return a question without these parts."""
    for text in texts:
        question = question.replace(text, " ")
    return question


def named_values(question: str, rows: Sequence[Cells]) -> list[Condition] | None:
    """Return the conditions of the values that a question names: one of them, in each column; None if that is unclear.

    A value that follows 'not' is excluded; one such as 'not paid' has to be in the question as it is. A question about
    what is free names the values that say so.
    """
    cells = dict.fromkeys(chain.from_iterable(rows))
    negative = [cell for cell in cells if NEGATIVE_VALUE.search(cell[1])]
    positive = [cell for cell in cells if cell not in set(negative)]
    wanted = _named([cell for cell in negative if has_words(question, cell[1])], question, question, set())
    rest = without(question.lower(), (value.lower() for values in (wanted or {}).values() for value in values))
    names = {" ".join(words) for _, value in positive if len(words := split_words(value)) > 1}
    for match in EXCLUDED.finditer(rest):
        words = split_words(rest[match.start(1) :])
        if any(" ".join(words[:count]) in names for count in range(2, MAX_VALUE_WORDS + 1)):
            return None
    row_names = content_words(rows[0][0][0]) if rows else set()
    found = _named(positive, EXCLUDED.sub(" ", rest), question, row_names)
    excluded = _named(positive, " ".join(EXCLUDED.findall(rest)), question, row_names)
    if wanted is None or found is None or excluded is None:
        return None
    free = [cell for cell in cells if FREE.fullmatch(cell[1])] if FREE_OF_CHARGE.search(question) else []
    for header, value in (*free, *(cell for cell in negative if cell[1] in wanted.get(cell[0], ()))):
        found.setdefault(header, set()).add(value)
    return [
        Condition(
            header,
            f"{negation}{', '.join(sorted(values))}",
            test(frozenset(values)),
            " ".join(sorted(values)),
            is_denied=bool(negation),
        )
        for named, negation, test in ((found, "", _is_in), (excluded, NOT, _is_not_in))
        for header, values in named.items()
    ]


def _named(
    cells: Iterable[tuple[str, str]], text: str, question: str, row_names: Set[str]
) -> dict[str, set[str]] | None:
    """Return the values that a text names, by header; None if it is unclear which value or column is meant.

    Longer values come first: 'office supplies' does not name 'office' too. A number needs its header. What the rows are
    called names no value: 'deliveries' not 'delivered'.
    """
    groups = defaultdict[frozenset[str], list[tuple[str, str]]](list)
    for header, value in cells:
        groups[frozenset(content_stems(value))].append((header, value))
    found, seen = dict[str, set[str]](), set[str]()
    stems, asked = content_stems(text), content_stems(question)
    for words, group in sorted(groups.items(), key=lambda each: len(each[0]), reverse=True):
        if not words or not words <= stems:
            continue
        clear = [cell for cell in group if any(map(str.isalpha, cell[1])) or content_stems(cell[0]) & asked]
        exact = [cell for cell in clear if has_words(text, cell[1])]
        others = [word for word in split_words(text) if not any(is_form(word, name) for name in row_names)]
        named = exact or [cell for cell in clear if has_forms(" ".join(others), cell[1])]
        headers = {header for header, _ in named}
        if len(headers) > 1:
            headers = {header for header in headers if (content_stems(header) - words) & asked}
        if named and (len(headers) != 1 or words & seen or (not exact and len({value for _, value in named}) > 1)):
            return None
        for header, value in named:
            if header in headers:
                found.setdefault(header, set()).add(value)
            text = f" {' '.join(split_words(text))} ".replace(f" {' '.join(split_words(value))} ", " ")
        seen |= words if named and not exact else set()
        stems = content_stems(text)
    return found


def _parts_of_names(question: str, rows: Sequence[Cells], understood: Set[str]) -> list[Condition]:
    """Return the conditions of words that are part of one name, which several rows have: 'osei' of 'Ann Osei'."""
    known = understood | content_stems(" ".join({header for row in rows for header, _ in row}))
    words = {stem(word): word for word in split_words(question) if content_stems(word) and word.isalpha()}
    counts = Counter(cell for row in rows for cell in row if NAME_VALUE.fullmatch(cell[1]))
    holders = defaultdict[str, list[tuple[str, str]]](list)
    for header, value in counts:
        for each in content_stems(value) & words.keys() - known:
            holders[each].append((header, value))
    named = {each: cells[0] for each, cells in holders.items() if len(cells) == 1 and counts[cells[0]] >= MIN_SHARED}
    return [
        Condition(
            header, value, _is_in(frozenset([value])), " ".join(words[each] for each in named if named[each] == cell)
        )
        for cell in dict.fromkeys(named.values())
        for header, value in [cell]
    ]


def _columns_with(name: str, rows: Sequence[Cells]) -> list[str]:
    """Return the headers of the columns that have a name as one of several words: 'Osei' in 'Ann Osei'."""
    return list(dict.fromkeys(header for row in rows for header, value in row if has_words(value, name)))


def _has_word(name: str) -> Callable[[str], bool]:
    return lambda value: has_words(value, name)


def _is_in(values: frozenset[str]) -> Callable[[str], bool]:
    return lambda value: value in values


def _says_no(value: str) -> bool:
    return not says_yes(value)


def _is_not_in(values: frozenset[str]) -> Callable[[str], bool]:
    return lambda value: value not in values


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
    found = list[Condition]()
    for limit in find_limits(question):
        header = _limited_column(question, limit.text, rows)
        if header is None or NEGATED.search(limit.before) or len(found) == MAX_LIMITS:
            return None
        found.append(Condition(header, limit.text, _is_within(limit), limit.text))
    return found


def _limited_column(question: str, limit: str, rows: Sequence[Cells]) -> str | None:
    """Return the column of numbers that a question names, or that of amounts for one of money, or the only one.

    None if that is unclear, or if its numbers are not all in the unit of the limit.
    """
    sign, stems = currency(limit), content_stems(question)
    columns = [header for header in number_columns(rows) if not sign or is_money(header, rows)]
    named = [header for header in columns if content_stems(header) & stems]
    if not named and not _limit_unit(limit):  # an amount of money, but not of people: 'Who is over 60?'
        is_clear = len(columns) == 1 and is_money(columns[0], rows) and not PEOPLE.match(question)
        columns = columns if is_clear else []
    named = named or columns
    header = named[0] if len(named) == 1 else amount_column(rows) if sign else None
    if header is None or not _has_unit(header, limit, rows):
        return None
    return header if are_comparable(dict(row).get(header, "") for row in rows) else None


def _limit_unit(limit: str) -> str:
    """Return the unit or currency of a limit; '' without one."""
    match = re.search(r"(?:[^\W\d_]+|%)$", limit.strip())
    unit = match[0].lower() if match else ""
    return currency(limit) or ("" if STOP_WORD.fullmatch(unit) else unit)


def _has_unit(header: str, limit: str, rows: Sequence[Cells]) -> bool:
    """Return whether a column is in the unit of a limit, which its header or its cells name; any is in none."""
    if sign := currency(limit):
        others = {currency(value) for row in rows for name, value in row if UNIT_HEADER.fullmatch(name)}
        return {column_currency(header, rows), *others} <= {"", sign}
    unit = _limit_unit(limit)
    if not unit:
        return True
    cells = (CELL_NUMBER.fullmatch(dict(row).get(header, "").strip()) for row in rows)
    units = {stem(cell["unit"].lower()) for cell in cells if cell and cell["unit"]}
    return stem(unit) in units | content_stems(header) or (unit == "%" and "%" in header)


def _is_within(limit: Limit) -> Callable[[str], bool]:
    def is_met(value: str) -> bool:
        number = cell_number(value)
        return number is not None and limit.allows(number)

    return is_met


def _date_conditions(question: str, rows: Sequence[Cells]) -> list[Condition] | None:
    """Return the conditions of dates, none if no column has dates; None if they are unclear.

    Of several columns, the question names one, or one is called 'Date'.
    """
    tests = date_tests(question)
    if not tests or len(tests) > MAX_LIMITS:
        return [] if tests == [] else None
    texts = [text for cells in rows for cell in cells for text in cell]
    columns = _date_columns(rows)
    if not columns:  # a year or a name
        return [] if all(any(has_words(text, each.text) for text in texts) for each in tests) else None
    if (named := date_column(question, rows)) is None:
        return None
    values = [dict(row).get(named, "") for row in rows]
    months = [each.text for each in tests if not YEAR.fullmatch(each.text)]
    names = {
        text.lower() for text in months if DATE.fullmatch(text) and not re.search(rf"\d|\b(?:in|im) {text}", question)
    }
    is_name = any(names & set(split_words(value)) for row in rows for header, value in row if header not in columns)
    years = {date[0] for value in values if (date := full_date(value))}
    is_unclear = is_name or (len(years) > 1 and any(each.needs_one_year for each in tests))
    is_denied = any(NEGATED.search(question[: question.index(each.text)]) for each in tests)
    if is_unclear or is_denied or (months and not are_day_first(values)):
        return None
    return [Condition(named, each.text, each.is_met, each.text) for each in tests]


def date_column(question: str, rows: Sequence[Cells], is_strict: bool = False) -> str | None:
    """Return the column of dates that a question means: one that it names, or 'Date', or else the only one.

    If strict, that has to be one of when something began, for a question about the newest.
    """
    columns = _date_columns(rows)
    stems = {word[:NUM_SHARED_LETTERS] for word in content_stems(question)}  # 'closed' in 'Closing date'
    named = [header for header in columns if {word[:NUM_SHARED_LETTERS] for word in content_stems(header)} & stems]
    named = (
        named
        or [header for header in columns if AGES.search(question) and BIRTH_DATE.search(header)]
        or [header for header in columns if PLAIN_DATE.fullmatch(header)]
        or [header for header in columns if is_strict and NEWEST.search(question) and START_DATE.search(header)]
        or [header for header in columns if not is_strict and not STATE_DATE.search(header)]
    )
    return named[0] if len(named) == 1 else None


def _date_columns(rows: Sequence[Cells]) -> list[str]:
    return columns_of(rows, lambda value: full_date(value) is not None, skip=0, is_full=False)
