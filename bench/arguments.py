"""Numbers on the command line: what argparse refuses, with a sentence."""

from argparse import ArgumentTypeError


def positive_int(text: str) -> int:
    """Return a whole number above 0. Raises ArgumentTypeError for another text."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def fraction(text: str) -> float:
    """Return a number from 0 to 1. Raises ArgumentTypeError for another text."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"{text!r} is no number between 0 and 1")
    return value
