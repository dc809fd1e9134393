"""The columns of a table: their headers in a question, and which of them hold numbers or amounts of money.

`Cells` are those of a row, (header, value), as store.markdown.parse_row returns them.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from engine.prompt.followups import YEAR
from engine.prompt.overlap import content_stems, content_words, stem
from engine.prompt.question_kind import AUXILIARY
from engine.prompt.tables.amounts import cell_number, currency, names_money

Cells = Sequence[tuple[str, str]]
TOTAL = re.compile(  # what a row with a total begins with, or ends with: 'Energy Total'
    r"(?:(?:grand |sub-?)?totals?|(?:zwischen|end|gesamt)?summen?|sums?|all|overall|average|mean|insgesamt|durchschnitt"
    r"|gesamt(?:betrag|ergebnis|kosten|wert)?|mittel)\b(?!-)|.{0,80}\b(?:total|summe|gesamt|ergebnis)\W*$",
    re.I,
)
VERB = rf"(?!am\b)(?:{AUXILIARY})"  # 'am' is German too: 'am billigsten'
REQUESTED = re.compile(  # the head noun of 'which fence company was' is the last word
    rf"\b(?:which|what|welche[rsnm]?)\s+(?!(?:{VERB})\b)(?:(?:[\w-]+\s+){{1,3}}?(?P<head>[^\W\d_]+)\s+{VERB}\b"
    r"|(?P<first>[^\W\d_]+)(?:\s+(?P<second>[^\W\d_]+))?)",
    re.I,
)
WHOLE_AMOUNT = re.compile(r"\b(?:amount|total|sum|betrag|summe|gesamt)", re.I)  # not of one piece
PERSON_HEADER = re.compile(r"(?:(?:full|first|last) )?name|person", re.I)
IDENTIFIER = re.compile(  # numbers that say which, not how much
    r"(?:post|zip)?\W?code|zip|plz|(?:tele)?phone|tel\W?|fax|mobile|platform|gleis|rooms?|raum|zimmer|no|nr|number|id|year"
    r"|(?:bau)?jahr|isbn|position|rank|rang|platz|floor|etage",
    re.I,
)
MIN_SHARE = 0.6  # of the cells of a column of numbers, or of dates


def data_rows(rows: Sequence[Cells]) -> Iterator[tuple[int, Cells]]:
    """Yield the rows with their index, without totals."""
    return ((index, row) for index, row in enumerate(rows) if row and not is_total(row))


def is_total(row: Cells) -> bool:
    """Return whether a row has totals: all of its label says so, or a part and its other cells are numbers or empty."""
    label, others = row[0][1].strip(" :"), (value.strip() for _, value in row[1:])
    has_numbers = all(not value or cell_number(value) is not None for value in others)
    return bool(TOTAL.fullmatch(label) or (TOTAL.match(label) and has_numbers))


def requested_header(question: str, headers: Sequence[str]) -> str | None:
    """Return the header that the question asks for by name: 'Which customer ...', 'Which budget item goes ...'."""
    matches = list(REQUESTED.finditer(question))
    second = {stem(match["second"].lower()) for match in matches if match["second"]}
    if headers and second & content_stems(headers[0]) and len(content_stems(headers[0])) == 1:
        return headers[0]
    words = {stem((match["head"] or match["first"]).lower()) for match in matches}
    return next((header for header in headers if words & content_stems(header)), None)


def requested_word(question: str) -> str:
    """Return the word for what a question asks for after 'which' or 'what'; '' if there is none."""
    match = REQUESTED.search(question)
    return (match["head"] or match["first"]) if match else ""


def named_header(question: str, headers: Sequence[str]) -> str | None:
    """Return the longest header with a number, such as a model's name or a year, that the question contains."""
    found = [header for header in headers if re.search(r"\d", header)]
    found = [header for header in found if re.search(rf"(?<!\w){re.escape(header)}(?!\w)", question, re.I)]
    return max(found, key=len, default=None)


def names_columns(question: str, row: Cells) -> bool:
    """Return whether a question names two columns of a row."""
    words = content_words(question)
    headers = [content_words(header) for header, _ in row]
    return sum(bool(header) and header <= words for header in headers) >= 2


def number_columns(rows: Sequence[Cells]) -> list[str]:
    """Return the headers of the columns of numbers that can be added up or compared.

    Without the first column, which names the rows, years and numbers such as postcodes.
    """

    def is_amount(value: str) -> bool:
        return cell_number(value) is not None and not YEAR.fullmatch(value.strip())

    return [header for header in columns_of(rows, is_amount, skip=1) if not IDENTIFIER.fullmatch(header)]


def column_currency(header: str, rows: Sequence[Cells]) -> str:
    """Return the sign of the currency of a column, which its header or a cell names."""
    texts = chain([header], (dict(row).get(header, "") for row in rows))
    return next(filter(None, map(currency, texts)), "")


def is_money(header: str, rows: Sequence[Cells]) -> bool:
    """Return whether a column has amounts of money, which its header or a cell says."""
    return names_money(header) or bool(column_currency(header, rows))


def amount_column(rows: Sequence[Cells]) -> str | None:
    """Return the column of amounts of money; of several, that of whole amounts; None if that is unclear."""
    amounts = [header for header in number_columns(rows) if is_money(header, rows)]
    whole = [header for header in amounts if WHOLE_AMOUNT.search(header.replace("_", " "))]
    return next((found[0] for found in (amounts, whole) if len(found) == 1), None)


def columns_of(rows: Sequence[Cells], is_of_kind: Callable[[str], bool], skip: int, is_full: bool = True) -> list[str]:
    """Return the headers of the columns, without the first ones, most of whose cells are of a kind.

    A full column has a value in half of the rows.
    """
    cells = defaultdict[str, list[str]](list)
    for row in rows:
        for header, value in row[skip:]:
            if header and value.strip():
                cells[header].append(value)
    return [
        header
        for header, values in cells.items()
        if sum(map(is_of_kind, values)) >= max(1, MIN_SHARE * len(values))
        and (not is_full or 2 * len(values) >= len(rows))
    ]
