"""Numbers, codes and amounts of money in questions and table cells."""

import re
from collections.abc import Iterable

from engine.prompt.followups import YEAR

DIGITS = r"\d+(?:[.,]\d+)*"
CODE = re.compile(r"(?<!\w)(?=[\w/-]*\d)(?=[\w/-]*[A-Za-z/-])[\w]+(?:[/-][\w]+)*")  # 'TU-3102', '450-0208', 'F04'
THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:[.,]\d{3})+")
NUMBER = re.compile(rf"(?<![\w.,-])(?P<sign>[-\u2212]?)[\u20ac\u00a3$]? ?(?P<digits>{DIGITS})")
CELL_NUMBER = re.compile(
    r"(?P<sign>[-\u2212\u2013]?) ?[\u20ac\u00a3$]? ?(?P<digits>(?:\d{1,3}(?:[.,]\d{3})+|\d+)(?:[.,]\d+)?)"
    r"[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]*"  # marks of footnotes
    r" ?(?P<unit>[^\W\d_]{1,8}|[%\u20ac\u00a3$])?"
)
CURRENCIES = {  # how a header or a question names the currency of an amount
    "\u20ac": r"\u20ac|\beur(?:os?)?\b",
    "\u00a3": r"\u00a3|\b(?:gbp|pounds?)\b",
    "$": r"\$|\b(?:usd|dollars?)\b",
    "CHF": r"\bchf\b|\bfranken\b|\bswiss francs?\b",
}
MONEY_NAME = re.compile(
    r"\b(?:amounts?|totals?|sums?|costs?|prices?|net|gross|fees?)\b|betrag|summe|gesamt|kosten|preis|geb\u00fchr|\bwert"
    r"|\b(?:salar(?:y|ies)|wages?|rents?|revenues?|incomes?|gehalt|lohn|mieten?)\b|umsatz",
    re.I,
)


def codes(text: str) -> set[str]:
    """Return the codes of a text, such as part numbers, in lower case: letters or hyphens with digits."""
    return {code.lower() for code in CODE.findall(text) if not YEAR.fullmatch(code)}


def read_number(digits: str) -> float:
    """Return the value of a number with English or German separators."""
    if THOUSANDS.fullmatch(digits):
        return float(re.sub("[.,]", "", digits))
    *whole, fraction = re.split("[.,]", digits)
    return float(f"{''.join(whole)}.{fraction}" if whole else fraction)


def signed_number(match: re.Match[str]) -> float:
    """Return the number that NUMBER or CELL_NUMBER matched."""
    return (-1 if match["sign"] else 1) * read_number(match["digits"])


def numbers(question: str) -> list[float]:
    """Return the numbers of a question, without signs, that are not years or parts of codes."""
    return [read_number(match["digits"]) for match in NUMBER.finditer(YEAR.sub("", question))]


def cell_number(value: str) -> float | None:
    """Return the number that a cell consists of, apart from a unit or currency; None for another cell."""
    cell = CELL_NUMBER.fullmatch(value.strip())
    return signed_number(cell) if cell else None


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
    """Return the sign of the currency that a text or a header such as 'day_rate_gbp' names; '' if none."""
    words = text.replace("_", " ")
    return next((sign for sign, names in CURRENCIES.items() if re.search(names, words, re.I)), "")


def names_money(text: str) -> bool:
    """Return whether a header or cell names an amount of money or its currency."""
    return bool(MONEY_NAME.search(text.replace("_", " ")) or currency(text))
