"""Ranges and limits of numbers in questions and cells: 'between 5 and 7 days', 'over 500 euros', 'ab 65 Jahren'."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from engine.prompt.tables.amounts import DIGITS, numbers, read_number
from engine.prompt.tables.columns import Cells

AMOUNT = rf"[\u20ac\u00a3$]? ?(?<![\d.,])({DIGITS})(?: ?(?:%|[^\W\d_]+|[\u20ac\u00a3$]))?"
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
DOWNWARDS = re.compile(  # '14 to 3 days' before, but no hours: '10 to 5'
    r"^\W*\d{1,3}\b.*\d ?(?:days?|weeks?|months?|tage?n?|wochen?|monate?n?)$", re.I
)
CHANGE = re.compile(  # 'from 14 to 3 days'
    r"\b(?:from|von|dropped|cut|reduced|lowered|gesenkt|verk\u00fcrzt)\s*$", re.I
)
EXCLUSIVE = re.compile(r"(?:over|above|more|older|under|below|less|fewer|\u00fcber|mehr|unter|weniger)\b", re.I)


@dataclass(frozen=True, slots=True)
class Limit:
    """The smallest and the largest number that a text allows."""

    low: float
    high: float
    text: str
    before: str  # the text before it, without ranges and limits
    is_exclusive: bool = False  # whether neither of the two is allowed

    def allows(self, number: float) -> bool:
        return self.low <= number <= self.high and not (self.is_exclusive and number in (self.low, self.high))


def find_limits(text: str) -> Iterator[Limit]:
    """Yield the ranges of a text, then its other limits: the largest numbers first."""
    for pattern in (RANGE, MAXIMUM, MINIMUM):
        for match in pattern.finditer(text):
            found = [read_number(digits) for digits in match.groups() if digits]
            if pattern is RANGE and DOWNWARDS.search(match[0]) and not CHANGE.search(text[: match.start()]):
                found.sort()
            is_exclusive = pattern is not RANGE and bool(EXCLUSIVE.match(match[0]))
            low = found[0] if pattern is not MAXIMUM else float("-inf")
            high = found[-1] if pattern is not MINIMUM else float("inf")
            yield Limit(low, high, match[0].strip(), text[: match.start()], is_exclusive)
        text = pattern.sub(" ", text)


def without_limits(text: str) -> str:
    """Return a text without its ranges and limits."""
    for pattern in (RANGE, MAXIMUM, MINIMUM):
        text = pattern.sub(" ", text)
    return text


def limits(text: str) -> tuple[float, float] | None:
    """Return the smallest and the largest number that a text allows, from its first range or limit; None without."""
    first = next(find_limits(text), None)
    return (first.low, first.high) if first and first.low < first.high else None


def is_in_range(question: str, cells: Cells) -> bool:
    """Return whether a number of the question is within the range of the first cell that has one."""
    found = next((bounds for _, value in cells if (bounds := limits(value))), None)
    return found is not None and any(found[0] <= number <= found[1] for number in numbers(question))
