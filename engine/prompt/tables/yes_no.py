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
ALL_NAMES = re.compile(r"(?:the )?names of (?:all|the|our|every)(?: \w+){0,2} (\w+s)\W*$", re.I)
DONE = re.compile(  # of a column of dates: 'Paid on', 'date_returned'
    r"(?<![^\W_])(?:\w{2,}[^\W_]ed|paid|sent|sold|done|given|taken|(?:be|ge|aus)zahlt|(?:aus|ein)?ge\w+t|erledigt"
    r"|zur\u00fcck\w*)(?![^\W_])",
    re.I,
)
PLANNED = re.compile(r"\b(?:to|be|by|due|until|planned|expected|target|bis|geplant)\b", re.I)  # what is yet to be done
TO_BE_DONE = re.compile(  # what is to be done, or when or how
    r"\b(?:(?:yet|ha[sd]|have|ought|going|are|is|still) to|be|can(?:not)?|could|may|must|should|shall|will|needs?|when"
    r"|first(?! (?:half|quarter))|last|zu|m\u00fcssen|muss|kann"
    r"|k\u00f6nnen|darf|d\u00fcrfen|soll\w*|werden|wann|zuerst|zuletzt|late|early|(?:on|in) time|within|partly"
    r"|rechtzeitig|zu sp\u00e4t|teilweise)\b",
    re.I,
)
YES_OR_NO = re.compile(rf"{YES.pattern}|(?:no|nein)\b.*|[-\u2013\u2014]|", re.I)


def listed_rows(question: str, rows: Sequence[Cells]) -> list[int]:
    """Return the rows that a question about a table asks to list: of `said_rows`, or all for a column's values.

    That is the first column, or one whose names it asks for: 'Warden' for 'names of all fire wardens'.
    """
    if said := said_rows(question, rows):
        return said
    headers = [header for header, _ in rows[0]] if rows else []
    listed = ALL_NAMES.match(question)
    is_named = content_stems(question) & content_stems("".join(headers[:1])) or (
        listed and any(f"{header.lower()}s" == listed[1].lower() for header in headers)
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


def done_word(header: str, rows: Sequence[Cells]) -> str:
    """Return what a column of dates that some rows lack says was done: 'paid' of 'Paid on'; '' of other columns."""
    done = DONE.search(header.replace("_", " "))
    if done is None or PLANNED.search(header.replace("_", " ")):
        return ""
    values = [dict(row).get(header, "") for _, row in data_rows(rows)]
    is_of_dates = any(values) and not all(values) and all(full_date(value) for value in values if value)
    return done[0].lower() if is_of_dates else ""


def done_column(question: str, rows: Sequence[Cells]) -> tuple[str, str] | None:
    """Return the column of dates that says whether what a question names was done, and that word.

    None if there are several, or if the question may be about what is to be done, or when.
    """
    asked, headers = split_words(question), dict.fromkeys(header for row in rows for header, _ in row[1:])
    named = [(header, word) for header in headers if (word := done_word(header, rows)) in asked]
    return named[0] if len(named) == 1 and not TO_BE_DONE.search(question) else None


def said_column(question: str, rows: Sequence[Cells], is_strict: bool = False) -> str | None:
    """Return the column of yes and no that a question names; None if there are several, or none.

    The question has the words of a negative column, such as 'Not insured', as they are.
    """
    stems, columns = content_stems(question), dict[str, int]()
    for header in dict.fromkeys(header for row in rows for header, _ in row[1:]):
        words = content_stems(header)
        shared = sum(  # 'laden' in 'Ladeplatz'
            word in stems if is_strict else any(word[:4] == other[:4] for other in stems) for word in words
        )
        if NEGATION.search(header) and header.lower() not in question.lower():
            continue
        values = [dict(row).get(header, "") for row in rows]
        is_said = all(map(YES_OR_NO.fullmatch, values)) and any(map(says_yes, values))
        if is_said and shared >= (len(words) if is_strict else 1) and words:
            columns[header] = shared
    named = [header for header, shared in columns.items() if shared == max(columns.values())]
    return named[0] if len(named) == 1 else None


def denies(question: str, header: str) -> bool:
    """Return whether a question is negative, apart from the words of a column such as 'Closed'."""
    if NEGATION.search(header):
        question = re.sub(re.escape(header), " ", question, flags=re.I)
    return bool(NEGATION.search(question))
