"""Numbers and amounts of money in table cells and questions."""

import re

from engine.prompt.table_questions import read_number

CELL_NUMBER = re.compile(
    r"(?P<sign>[-\u2212\u2013]?) ?[\u20ac\u00a3$]? ?(?P<digits>\d+(?:[.,]\d+)*)"
    r" ?(?P<unit>[^\W\d_]{1,8}|[%\u20ac\u00a3$])?"
)
CURRENCIES = {  # how a header or a question names the currency of an amount
    "\u20ac": r"\u20ac|\beur(?:os?)?\b",
    "\u00a3": r"\u00a3|\b(?:gbp|pounds?)\b",
    "$": r"\$|\b(?:usd|dollars?)\b",
    "CHF": r"\bchf\b|\bfranken\b|\bswiss francs?\b",
}


def cell_number(value: str) -> float | None:
    """Return the number that a cell consists of, apart from a unit or currency; None for another cell."""
    match = CELL_NUMBER.fullmatch(value.strip())
    return number_of(match) if match else None


def number_of(cell: re.Match[str]) -> float:
    """Return the number of a match of CELL_NUMBER."""
    return (-1 if cell["sign"] else 1) * read_number(cell["digits"])


def currency(text: str) -> str:
    """Return the sign of the currency that a text names; '' if none."""
    return next((sign for sign, names in CURRENCIES.items() if re.search(names, text, re.I)), "")
