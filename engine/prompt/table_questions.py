"""Rules for questions about tables: codes, numbers within a range, and rows that say yes.

The words and numbers of a table decide these questions exactly, which a small model does not learn. `Cells` are those
of a row, (header, value), as store.markdown.parse_row returns them.
"""

import re
from collections.abc import Sequence

from engine.prompt.followups import YEAR
from engine.prompt.overlap import content_stems, content_words, stem

Cells = Sequence[tuple[str, str]]
CODE = re.compile(r"(?<!\w)(?=[\w/-]*\d)(?=[\w/-]*[A-Za-z/-])[\w]+(?:[/-][\w]+)*")  # 'TU-3102', '450-0208', 'F04'
THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:[.,]\d{3})+")
NUMBER = re.compile(r"(?<![\w.,-])\d+(?:[.,]\d+)*")
AMOUNT = r"[\u20ac\u00a3$]? ?(?<![\d.,])(\d+(?:[.,]\d+)*)(?: ?(?:%|[^\W\d_]+|[\u20ac\u00a3$]))?"
RANGE = re.compile(
    rf"\b(?:between|zwischen) {AMOUNT} (?:and|und) {AMOUNT}|{AMOUNT} ?(?:to|bis|[\u2013-]) ?{AMOUNT}", re.I
)
MAXIMUM = re.compile(
    rf"\b(?:up to|under|below|(?:less|fewer) than|at most|no more than|not more than|max(?:imum|imal|\.)?(?: of)?"
    rf"|bis(?: zu)?|unter|weniger als|h\u00f6chstens) {AMOUNT}"
    rf"|{AMOUNT} (?:and|or|und|oder) (?:under|below|younger|less|fewer|j\u00fcnger|weniger|darunter)\b",
    re.I,
)
MINIMUM = re.compile(
    rf"\b(?:from(?: the age of)?|over|above|more than|at least|minimum(?: of)?|older than|ab|\u00fcber|mehr als"
    rf"|mindestens) {AMOUNT}"
    rf"|{AMOUNT} (?:and|or|und|oder) (?:above|over|older|more|upwards?|\u00e4lter|mehr|dar\u00fcber)\b",
    re.I,
)
TOTAL = re.compile(  # what a row with a total begins with, or ends with: 'Energy Total'
    r"(?:(?:grand |sub-?)?totals?|(?:zwischen|end|gesamt)?summen?|sums?|all|overall|average|mean|insgesamt|durchschnitt"
    r"|gesamt(?:betrag|ergebnis|kosten|wert)?|mittel)\b(?!-)|.{0,80}\b(?:total|summe|gesamt|ergebnis)\W*$",
    re.I,
)
REQUESTED = re.compile(r"\b(?:which|what|welche[rsnm]?)\s+([^\W\d_]+)", re.I)
NEGATION = re.compile(
    r"\b(?:not|no(?:ne|body|thing)?|never|cannot|excluded|prohibited|forbidden|refused|declined|closed|non-\w+)\b"
    r"|n['\u2019]t\b|\b(?:nichts?|nein|kein\w*|nie|niemand|verboten|untersagt|ausgeschlossen|geschlossen)\b",
    re.I,
)
COUNTED = re.compile(r"^(?:how many|wie viele)\s+([\w-]+(?:\s+[\w-]+)?)", re.I)
FREE_OF_CHARGE = re.compile(
    r"\b(?:free|(?:no|without|at no) (?:charge|cost|fee)|costs? nothing|kostenlos\w*|gratis|umsonst|kostenfrei\w*)\b"
    r"|n['\u2019]t cost\b|\bnot cost\b|\bkoste\w* nichts\b",
    re.I,
)
FREE = re.compile(
    r"free(?: of charge)?|no charge|kostenlos|kostenfrei|gratis|[\u20ac\u00a3$] ?0(?:[.,]00)?|0(?:[.,]00)? \u20ac", re.I
)
YES = re.compile(r"(?:yes|ja|x|\u2713|\u2714)\b.*|[x\u2713\u2714]", re.I)
YES_OR_NO = re.compile(rf"{YES.pattern}|(?:no|nein)\b.*|[-\u2013\u2014]|", re.I)


def codes(text: str) -> set[str]:
    """Return the codes of a text, such as part numbers, in lower case: letters or hyphens with digits."""
    return {code.lower() for code in CODE.findall(text) if not YEAR.fullmatch(code)}


def read_number(digits: str) -> float:
    """Return the value of a number with English or German separators."""
    if THOUSANDS.fullmatch(digits):
        return float(re.sub("[.,]", "", digits))
    *whole, fraction = re.split("[.,]", digits)
    return float(f"{''.join(whole)}.{fraction}" if whole else fraction)


def limits(text: str) -> tuple[float, float] | None:
    """Return the smallest and the largest number that a text allows, from its first range or limit; None without."""
    if match := RANGE.search(text):
        low, high = map(read_number, filter(None, match.groups()))
        return (low, high) if low < high else None
    if match := MAXIMUM.search(text):
        return float("-inf"), read_number(match[1] or match[2])
    if match := MINIMUM.search(text):
        return read_number(match[1] or match[2]), float("inf")
    return None


def numbers(question: str) -> list[float]:
    """Return the numbers of a question that are not years or parts of codes."""
    return [read_number(number) for number in NUMBER.findall(YEAR.sub("", question))]


def is_in_range(question: str, cells: Cells) -> bool:
    """Return whether a number of the question is within the range of the first cell that has one."""
    found = next((bounds for _, value in cells if (bounds := limits(value))), None)
    return found is not None and any(found[0] <= number <= found[1] for number in numbers(question))


def requested_header(question: str, headers: Sequence[str]) -> str | None:
    """Return the header that the question asks for by name: 'Which customer ...'."""
    words = {stem(word.lower()) for word in REQUESTED.findall(question)}
    return next((header for header in headers if words & content_stems(header)), None)


def named_header(question: str, headers: Sequence[str]) -> str | None:
    """Return the longest header with a number, such as a model's name or a year, that the question contains."""
    found = [header for header in headers if re.search(r"\d", header)]
    found = [header for header in found if re.search(rf"(?<!\w){re.escape(header)}(?!\w)", question, re.I)]
    return max(found, key=len, default=None)


def listed_rows(question: str, rows: Sequence[Cells]) -> list[int]:
    """Return the rows that a question about a table asks to list: of `said_rows`, or all for a column's values."""
    if said := said_rows(question, rows):
        return said
    label = rows[0][0][0] if rows and rows[0] else ""
    if content_stems(question) & content_stems(label):
        return [index for index, row in enumerate(rows) if row and not TOTAL.match(row[0][1])]
    return []


def said_rows(question: str, rows: Sequence[Cells], is_strict: bool = False) -> list[int]:
    """Return the rows that say yes in the column that a question names, or no if the question is negative.

    The column is the one with most words of the question; it is unclear if there are several. Strictly, the question
    has all its words.
    """
    header = said_column(question, rows, is_strict)
    if header is None:
        return []
    is_yes = [bool(YES.fullmatch(dict(row).get(header, ""))) for row in rows]
    is_negative = denies(question, header)
    return [i for i, row in enumerate(rows) if is_yes[i] != is_negative and not TOTAL.match(row[0][1])]


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
        is_said = all(map(YES_OR_NO.fullmatch, values)) and any(map(YES.fullmatch, values))
        if is_said and shared >= (len(words) if is_strict else 1) and words:
            columns[header] = shared
    named = [header for header, shared in columns.items() if shared == max(columns.values())]
    return named[0] if len(named) == 1 else None


def denies(question: str, header: str) -> bool:
    """Return whether a question is negative, apart from the words of a column such as 'Closed'."""
    if NEGATION.search(header):
        question = re.sub(re.escape(header), " ", question, flags=re.I)
    return bool(NEGATION.search(question))


def names_columns(question: str, row: Cells) -> bool:
    """Return whether a question names two columns of a row."""
    words = content_words(question)
    headers = [content_words(header) for header, _ in row]
    return sum(bool(header) and header <= words for header in headers) >= 2
