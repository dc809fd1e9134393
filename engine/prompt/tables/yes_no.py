"""Columns that say yes or no of each row, and the rows that a question about such a column means."""

import re
from collections.abc import Sequence

from engine.prompt.overlap import content_stems
from engine.prompt.tables.columns import Cells, data_rows
from engine.prompt.tables.dates import full_date
from engine.text import split_words

NEGATION = re.compile(
    r"\b(?:not|no(?:ne|body|thing)?|never|cannot|excluded|prohibited|forbidden|refused|declined|closed|non-\w+)\b"
    r"|n['\u2019]t\b|\b(?:nichts?|nein|kein\w*|nie|niemand|verboten|untersagt|ausgeschlossen|geschlossen)\b",
    re.I,
)
YES = re.compile(r"(?:yes|ja|x|\u2713|\u2714)\b.*|[x\u2713\u2714]", re.I)
DONE = re.compile(  # of a column of dates: 'Paid on', 'date_returned'
    r"(?<![^\W_])(?:\w{2,}[^\W_]ed|paid|sent|sold|done|given|taken|(?:be|ge|aus)zahlt|(?:aus|ein)?ge\w+t|erledigt"
    r"|zur\u00fcck\w*)(?![^\W_])",
    re.I,
)
YES_OR_NO = re.compile(rf"{YES.pattern}|(?:no|nein)\b.*|[-\u2013\u2014]|", re.I)


def listed_rows(question: str, rows: Sequence[Cells]) -> list[int]:
    """Return the rows that a question about a table asks to list: of `said_rows`, or all for a column's values.

    That is the first column, or one whose header the question has in the plural: 'Warden' for 'names of all wardens'.
    """
    if said := said_rows(question, rows):
        return said
    headers = [header for header, _ in rows[0]] if rows else []
    asked = set(split_words(question))
    is_named = content_stems(question) & content_stems("".join(headers[:1])) or any(
        f"{header.lower()}s" in asked for header in headers
    )
    return [index for index, _ in data_rows(rows)] if is_named else []


def said_rows(question: str, rows: Sequence[Cells], is_strict: bool = False) -> list[int]:
    """Return the rows that say yes in the column that a question names, or no if the question is negative.

    The column is the one with most words of the question; it is unclear if there are several. Strictly, the question
    has all its words.
    """
    header = said_column(question, rows, is_strict)
    if header is None:
        return []
    is_negative = denies(question, header)
    return [index for index, row in data_rows(rows) if says_yes(dict(row).get(header, "")) != is_negative]


def says_yes(value: str) -> bool:
    """Return whether a cell says yes, or has a mark, or the date when something was done."""
    return bool(YES.fullmatch(value) or full_date(value))


def said_word(header: str, rows: Sequence[Cells]) -> str:
    """Return what a column of yes and no says: 'paid' of dates in 'Paid on', which some rows lack; else its header."""
    done = DONE.search(header.replace("_", " "))
    if done is None:
        return header
    values = [dict(row).get(header, "") for _, row in data_rows(rows)]
    is_of_dates = any(values) and not all(values) and all(full_date(value) for value in values if value)
    return done[0] if is_of_dates else header


def said_column(question: str, rows: Sequence[Cells], is_strict: bool = False) -> str | None:
    """Return the column of yes and no that a question names; None if there are several, or none.

    The question has the words of a negative column, such as 'Not insured', as they are.
    """
    stems, columns = content_stems(question), dict[str, int]()
    for header in dict.fromkeys(header for row in rows for header, _ in row[1:]):
        word = said_word(header, rows)
        words = content_stems(word)
        shared = sum(  # 'laden' in 'Ladeplatz'
            word in stems if is_strict else any(word[:4] == other[:4] for other in stems) for word in words
        )
        if NEGATION.search(header) and header.lower() not in question.lower():
            continue
        values = [dict(row).get(header, "") for row in rows]
        is_said = (word != header or all(map(YES_OR_NO.fullmatch, values))) and any(map(says_yes, values))
        if is_said and shared >= (len(words) if is_strict else 1) and words:
            columns[header] = shared
    named = [header for header, shared in columns.items() if shared == max(columns.values())]
    return named[0] if len(named) == 1 else None


def denies(question: str, header: str) -> bool:
    """Return whether a question is negative, apart from the words of a column such as 'Closed'."""
    if NEGATION.search(header):
        question = re.sub(re.escape(header), " ", question, flags=re.I)
    return bool(NEGATION.search(question))
