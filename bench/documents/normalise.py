"""One spelling for texts that mean the same: case, white space, dashes, currency, per cent, numbers, number words."""

import re
import unicodedata

_WORDS = (
    "one two three four five six seven eight nine ten eleven twelve",
    "eins zwei drei vier f\u00fcnf sechs sieben acht neun zehn elf zw\u00f6lf",
)
NUMBER_WORDS = {word: str(number) for words in _WORDS for number, word in enumerate(words.split(), 1)}
LINE_BREAK_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u2010]\n\s*(?=[a-z\u00e4\u00f6\u00fc\u00df])")
APOSTROPHES = re.compile("['\u2018\u2019\u00ad]")  # and soft hyphens: nothing is left in their place
PERCENT = re.compile(r"\s*(?:%|\bper ?cent\b|\bprozent\b)")
CURRENCY = re.compile(r"[\u20ac$\u00a3]|(?<![^\W\d_])(?:euros?|eur|gbp|usd|pounds?(?: sterling)?|dollars?)\b")
SPACED_THOUSANDS = re.compile(r"(?<![\d.,:-])\d{1,3}(?: \d{3})+(?![\d]|[.:-]\d)")
CLOCK = re.compile(r"(?<![\d:])(\d{1,2}):(\d{2})(?![\d:])")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:(?:,\d{3})+(?:\.\d+)?|(?:\.\d{3})+(?:,\d+)?)")
DECIMAL = re.compile(r"\d+(?:\.\d+|,\d{1,3})")
NO_MARK = re.compile(r"\.(?!\d)|(?<!\d)\.|[^\w.%]|_")  # a point within a number is kept
NUMBER_AND_UNIT = re.compile(r"(?<!\w)(\d[\d.]*)(?=[^\W\d_])")
WORD = re.compile(r"[^\W\d_]+")


def normalise(text: str, join_spaced: bool = False) -> str:
    """Return the text in one spelling; `join_spaced` reads '1 250' as one number."""
    text = unicodedata.normalize("NFKC", LINE_BREAK_HYPHEN.sub("", text)).casefold()
    text = CURRENCY.sub(" ", PERCENT.sub("%", APOSTROPHES.sub("", text)))
    if join_spaced:
        text = SPACED_THOUSANDS.sub(lambda match: match[0].replace(" ", ""), text)
    text = NUMBER.sub(lambda match: _number(match[0]), CLOCK.sub(r"\1.\2", text))
    text = NUMBER_AND_UNIT.sub(r"\1 ", NO_MARK.sub(" ", text))
    text = WORD.sub(lambda match: NUMBER_WORDS.get(match[0], match[0]), text)
    return " ".join(text.split())


def _number(digits: str) -> str:
    """Return a number without thousands separators and closing zeros, with a decimal point.

    Points of a date stay; commas between more than two numbers, as in a row of a CSV file, become spaces.
    """
    if THOUSANDS.fullmatch(digits):
        separator = next(mark for mark in digits if not mark.isdigit())
        digits = digits.replace(separator, "")
    if DECIMAL.fullmatch(digits):
        whole, fraction = re.split("[.,]", digits)
        return f"{whole.lstrip('0') or '0'}.{fraction}".rstrip("0").rstrip(".")
    return " ".join(map(_number, digits.split(","))) if "," in digits else digits


def contains(text: str, wanted: str) -> bool:
    """Return whether a text holds `wanted` as whole words and whole numbers; a longer word may have an ending."""
    return any(_contains(normalise(text, spaced), normalise(wanted, spaced)) for spaced in (False, True))


def _contains(text: str, wanted: str) -> bool:
    ending = "(?:s|es|n|en|e)?" if len(wanted) >= 4 and wanted[-1].isalpha() else ""
    return bool(wanted and re.search(rf"(?<!\w)(?<!\d\.){re.escape(wanted)}{ending}(?!\w|\.\d)", text))
