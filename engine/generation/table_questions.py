"""Rules for questions about tables: codes, numbers within a range, superlatives over a column, and lists of rows.

The words and numbers of a table decide these questions exactly, which a small model does not learn. `Cells` are those
of a row, (header, value), as store.markdown.parse_row returns them.
"""

import re
from collections.abc import Sequence

from engine.generation.overlap import content_stems, content_words, stem
from engine.prompt.followups import YEAR

Cells = Sequence[tuple[str, str]]
CODE = re.compile(r"(?<!\w)(?=[\w/-]*\d)(?=[\w/-]*[A-Za-z/-])[\w]+(?:[/-][\w]+)*")  # 'TU-3102', '450-0208', 'F04'
NUMBER = re.compile(r"(?<![\w.,-])\d+(?:[.,]\d+)*")
AMOUNT = r"[\u20ac\u00a3$]? ?(\d+(?:[.,]\d+)*)(?: ?(?:%|[^\W\d_]+|[\u20ac\u00a3$]))?"
RANGE = re.compile(
    rf"\b(?:between|zwischen) {AMOUNT} (?:and|und) {AMOUNT}|{AMOUNT} ?(?:to|bis|[\u2013-]) ?{AMOUNT}", re.I
)
MAXIMUM = re.compile(
    rf"\b(?:up to|under|below|less than|at most|no more than|not more than|max(?:imum|imal|\.)?(?: of)?|bis(?: zu)?"
    rf"|unter|weniger als|h\u00f6chstens) {AMOUNT}",
    re.I,
)
MINIMUM = re.compile(
    rf"\b(?:from(?: the age of)?|over|above|more than|at least|minimum(?: of)?|older than|ab|\u00fcber|mehr als"
    rf"|mindestens) {AMOUNT}",
    re.I,
)
LEAST = (
    r"least|fewest|lowest|smallest|shortest|cheapest|lightest|earliest|slowest|quietest|youngest"
    r"|wenigsten|geringste\w*|niedrigste\w*|kleinste\w*|k\u00fcrzeste\w*|billigste\w*|g\u00fcnstigste\w*|leichteste\w*"
    r"|fr\u00fcheste\w*|langsamste\w*|leiseste\w*"
)
MOST = (
    r"most|highest|biggest|largest|greatest|longest|heaviest|latest|fastest|loudest|oldest|widest|tallest|dearest|top"
    r"|meisten|h\u00f6chste\w*|gr\u00f6\u00dfte\w*|l\u00e4ngste\w*|schwerste\w*|sp\u00e4teste\w*"
    r"|schnellste\w*|teuerste\w*|lauteste\w*|\u00e4lteste\w*|breiteste\w*"
)
NAMES_A_ROW = r"\b(?:which|what|who|whose|welche[rsnm]?|wer|wo|where)\b(?!['\u2019]s| is| ist)"
SUPERLATIVE = re.compile(rf"{NAMES_A_ROW}.*\b(?:(?P<least>{LEAST})|{MOST})\b(?! of\b)", re.I)
TOTAL = re.compile(r"(?:total|sum|all|overall|average|mean|gesamt|summe|insgesamt|durchschnitt|mittel)\b", re.I)
REQUESTED = re.compile(r"\b(?:which|what|welche[rsnm]?)\s+([^\W\d_]+)", re.I)
NEGATION = re.compile(
    r"\b(?:not|no(?:ne|body|thing)?|never|cannot|excluded|prohibited|forbidden|refused|declined|closed|non-\w+)\b"
    r"|n['\u2019]t\b|\b(?:nicht|nein|kein\w*|nie|niemand|verboten|untersagt|ausgeschlossen|geschlossen)\b",
    re.I,
)
YES = re.compile(r"(?:yes|ja|x|\u2713|\u2714)\b.*|[x\u2713\u2714]", re.I)
YES_OR_NO = re.compile(rf"{YES.pattern}|(?:no|nein)\b.*|[-\u2013\u2014]|", re.I)
MIN_ROWS = 3
MIN_NUMERIC_SHARE = 0.6


def codes(text: str) -> set[str]:
    """Return the codes of a text, such as part numbers, in lower case: letters or hyphens with digits."""
    return {code.lower() for code in CODE.findall(text) if not YEAR.fullmatch(code)}


def read_number(digits: str) -> float:
    """Return the value of a number with English or German separators."""
    if re.fullmatch(r"\d{1,3}(?:[.,]\d{3})+", digits):
        return float(re.sub("[.,]", "", digits))
    *whole, fraction = re.split("[.,]", digits)
    return float(f"{''.join(whole)}.{fraction}" if whole else fraction)


def limits(text: str) -> tuple[float, float] | None:
    """Return the smallest and the largest number that a text allows, from its first range or limit; None without."""
    if match := RANGE.search(text):
        low, high = map(read_number, filter(None, match.groups()))
        return (low, high) if low < high else None
    if match := MAXIMUM.search(text):
        return float("-inf"), read_number(match[1])
    if match := MINIMUM.search(text):
        return read_number(match[1]), float("inf")
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


def extreme_cell(question: str, rows: Sequence[Cells], similarities: dict[str, float]) -> tuple[int, str] | None:
    """Return the row with the superlative that a question asks for, and the value that names it; None if unclear.

    similarities  of the headers to the question; decides which column is compared
    """
    match = SUPERLATIVE.search(question)
    rows_with_label = [(index, row) for index, row in enumerate(rows) if row and not TOTAL.match(row[0][1])]
    if match is None or len(rows_with_label) < MIN_ROWS:
        return None
    columns: dict[str, list[tuple[float, int]]] = {}
    for index, row in rows_with_label:
        for header, value in row[1:]:
            if number := NUMBER.search(value):
                columns.setdefault(header, []).append((read_number(number[0]), index))
    columns = {header: values for header, values in columns.items() if header and len(values) >= MIN_ROWS}
    columns = {h: values for h, values in columns.items() if len(values) >= MIN_NUMERIC_SHARE * len(rows_with_label)}
    if not columns:
        return None
    stems = content_stems(question)

    def relevance(header: str) -> float:
        return len(stems & content_stems(header)) + similarities.get(header, 0.0)

    column = max(columns, key=relevance)
    choose = min if match["least"] else max
    best, index = choose(columns[column], key=lambda pair: pair[0])
    if sum(value == best for value, _ in columns[column]) > 1:
        return None
    label = requested_header(question, [header for header, _ in rows[index]])
    return index, dict(rows[index]).get(label or "", rows[index][0][1])


def listed_rows(question: str, rows: Sequence[Cells]) -> list[int]:
    """Return the rows that a question about a table asks to list.

    These are the rows that say yes in a column that the question names, or no if the question is negative, or all rows
    if it asks for a column's values.
    """
    stems = content_stems(question)
    for header in dict.fromkeys(header for row in rows for header, _ in row[1:]):
        values = [dict(row).get(header, "") for row in rows]
        words = content_stems(header)
        is_named = any(word[:4] == other[:4] for word in stems for other in words)  # 'laden' in 'Ladeplatz'
        if is_named and all(map(YES_OR_NO.fullmatch, values)) and any(map(YES.fullmatch, values)):
            is_negative = bool(NEGATION.search(question))
            said = [bool(YES.fullmatch(value)) != is_negative for value in values]
            return [i for i, row in enumerate(rows) if said[i] and not TOTAL.match(row[0][1])]
    label = rows[0][0][0] if rows and rows[0] else ""
    if stems & content_stems(label):
        return [index for index, row in enumerate(rows) if row and not TOTAL.match(row[0][1])]
    return []


def names_columns(question: str, row: Cells) -> bool:
    """Return whether a question names two columns of a row."""
    words = content_words(question)
    headers = [content_words(header) for header, _ in row]
    return sum(bool(header) and header <= words for header in headers) >= 2
