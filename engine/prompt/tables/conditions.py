"""Which rows of a table a question means: 'open orders over 500 euros in March'.

Its words and numbers decide that exactly, which a small model does not learn. A condition that these rules do not
understand leaves no rows, rather than wrong ones.
"""

import re
from collections.abc import Callable, Sequence
from itertools import chain

from engine.prompt.followups import STOP_WORD, YEAR
from engine.prompt.overlap import content_stems, stem
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
from engine.prompt.tables.compared_columns import find_compared_columns
from engine.prompt.tables.condition import Condition, without
from engine.prompt.tables.dates import DATE, are_day_first, date_tests, full_date
from engine.prompt.tables.limits import Limit, find_limits, without_limits
from engine.prompt.tables.named_values import EXCLUDED, FREE_OF_CHARGE, named_values, parts_of_names
from engine.prompt.tables.wording import HOW_MUCH, has_words, in_table_words
from engine.prompt.tables.yes_no import YES_OR_NO, denies, done_column, said_column, says_yes
from engine.text import WORD, split_words
from store.german import is_german

NEGATED = re.compile(r"(?:\b(?:not?|never|nicht|kein\w*)|n['\u2019]t) $", re.I)  # what follows
DENIED = r"(?:\b(?:not?|never|nicht|kein\w*)|n['\u2019]t)(?: (?:yet|been|any|noch|als))*"
NAME = re.compile(r"\b(?:of|from|by|for|to|von|vom|f\u00fcr|an|bei)(?: the| der| dem)? ([A-Z\u00c4\u00d6\u00dc]\w+)")
DIRECTION = re.compile(r"\b(?:from|von) [A-Z]\w+ (?:to|nach) [A-Z]|\bto [A-Z]\w+ from [A-Z]")
ASKS_WHAT_DID = r"\b(?:did|does|do) (?!(?:the|an?|all|any|these|those|my|our) )\w+ "
AT_TIME = re.compile(
    r" (?:in|on|by|before|after|until|till|since|during|im|am|vor|nach|bis|seit) (?:\w+ )?(?:\d|[A-Z])"
)
OR = re.compile(r"\b(?:or|oder)\b", re.I)
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
PEOPLE = re.compile(r"(?:who|wer)\b(?!.*\b(?:earn|verdien))", re.I)
ALL_ROWS = re.compile(
    r"\b(?:over|across|throughout|\u00fcber) (?:all|alle[nrs]?)\b|\b(?:whatever|regardless of) (?:the )?\w+", re.I
)
MAX_LIMITS = 8  # or dates in a question; each is looked for in all rows
UNIT_HEADER = re.compile(r"units?|unit of measure|currency|einheit|w\u00e4hrung", re.I)
STATE_DATE = re.compile(r"birth|born|geb(?:urt|oren)|best before|expir|valid|until|g\u00fcltig|\bbis\b|ablauf", re.I)
BIRTH_DATE = re.compile(r"birth|born|geb(?:urt|oren)", re.I)
AGES = re.compile(r"\b(?:oldest|youngest|\u00e4lteste\w*|j\u00fcngste\w*)\b", re.I)
NEWEST = re.compile(r"\b(?:newest|latest|most recent(?:ly)?|neue?ste\w*)\b", re.I)
START_DATE = re.compile(r"start|join|since|began|created|opened|founded|beginn|eintritt|seit", re.I)
PLAIN_DATE = re.compile(r"date|datum|day|tag", re.I)
NUM_SHARED_LETTERS = 4


def conditions(question: str, rows: Sequence[Cells]) -> list[Condition] | None:
    """Return a question's conditions on the rows of a table; None if one is not understood or fits no column."""
    rows = [row for _, row in data_rows(rows)]
    question = ALL_ROWS.sub(" ", HOW_MUCH.sub(" ", in_table_words(question, rows)))
    compared = find_compared_columns(question, rows)
    if compared and NEGATED.search(question[: question.index(compared.text)]):
        return None
    question = without(question, [compared.text] if compared else [])
    done, header = done_column(question, rows), said_column(question, rows, is_strict=True)
    if done and header:
        return None
    header, said = done or (header, header or "")
    denial = re.search(rf"{DENIED} {re.escape(said)}\b", question, re.I) if header else None
    is_at_time = denial and (AT_TIME.match(question, denial.end()) or is_german(question))
    if is_at_time and date_tests(question) != []:  # 'not paid in March': at all, or then?
        return None
    dates = _date_conditions(without(question, [denial[0]] if denial else []), rows)
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
    others = without(others, [denial[0]] if denial else [])
    if found and UNCLEAR.search(others):
        return None
    if header:
        is_unclear = denies(others, said) and bool(found or denial)  # what is denied?
        if is_unclear or understood & content_stems(said):  # or which column is meant?
            return None
        is_no = bool(denial) or denies(others, said)
        if not any(each.header == header for each in found):  # 'paid in March' says yes, too
            found.append(Condition(header, "no" if is_no else "yes", _says_no if is_no else says_yes, said, is_no))
        understood |= content_stems(said)
    if not set(map(stem, EXCLUDED.findall(rest.lower()))) <= understood | _left_out(values, rows):
        return None
    parts = parts_of_names(rest, rows, understood)
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


def _columns_with(name: str, rows: Sequence[Cells]) -> list[str]:
    """Return the headers of the columns that have a name as one of several words: 'Osei' in 'Ann Osei'."""
    return list(dict.fromkeys(header for row in rows for header, value in row if has_words(value, name)))


def _has_word(name: str) -> Callable[[str], bool]:
    return lambda value: has_words(value, name)


def _says_no(value: str) -> bool:
    return not says_yes(value)


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
    if tests is None or len(tests) > MAX_LIMITS:
        return None
    headers = [header for header in _headers(rows) if content_stems(YEAR.sub("", header)) & content_stems(question)]
    tests = [each for each in tests if not (YEAR.fullmatch(each.text) and has_words(" ".join(headers), each.text))]
    if not tests:
        return []
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


def _headers(rows: Sequence[Cells]) -> list[str]:
    return list(dict.fromkeys(header for row in rows for header, _ in row))


def _date_columns(rows: Sequence[Cells]) -> list[str]:
    return columns_of(rows, lambda value: full_date(value) is not None, skip=0, is_full=False)
