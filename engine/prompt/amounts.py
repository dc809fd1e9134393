"""Numbers and amounts of money in table cells and questions."""

import re
from collections.abc import Iterable

from engine.prompt.table_questions import THOUSANDS, read_number

CELL_NUMBER = re.compile(
    r"(?P<sign>[-\u2212\u2013]?) ?[\u20ac\u00a3$]? ?(?P<digits>(?:\d{1,3}(?:[.,]\d{3})+|\d+)(?:[.,]\d+)?)"
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
    cell = CELL_NUMBER.fullmatch(value.strip())
    return (-1 if cell["sign"] else 1) * read_number(cell["digits"]) if cell else None


def separators(numbers: Iterable[str]) -> tuple[str, str] | None:
    """Return what separates the thousands and the decimals of numbers; None if that is unclear: '1.250' beside '0.5'.

    Decimals are separated by '' if there are none; thousands by '' if there are none and no number has decimals.
    """
    thousands, decimal = set[str](), set[str]()
    for number in numbers:
        marks = re.findall("[.,]", number)
        if marks and not THOUSANDS.fullmatch(number):
            decimal.add(marks.pop())
        thousands.update(marks)
    if max(len(thousands), len(decimal)) > 1 or thousands & decimal:
        return None
    mark = "".join(decimal)
    return "".join(thousands) or {"": "", ".": ",", ",": "."}[mark], mark


def are_comparable(values: Iterable[str]) -> bool:
    """Return whether the numbers among cells have one unit and one currency, and can be read."""
    cells = [cell for value in values if (cell := CELL_NUMBER.fullmatch(value.strip()))]
    units = {(cell["unit"] or "").lower().removesuffix("s") for cell in cells}
    currencies = {currency(cell[0]) for cell in cells}
    digits = [cell["digits"] for cell in cells]
    return max(len(units), len(currencies)) <= 1 and separators(digits) is not None


def currency(text: str) -> str:
    """Return the sign of the currency that a text names; '' if none."""
    return next((sign for sign, names in CURRENCIES.items() if re.search(names, text, re.I)), "")
