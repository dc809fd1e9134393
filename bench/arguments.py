"""Argument types for argparse."""

import math
from argparse import ArgumentTypeError


def positive_int(text: str) -> int:
    """Parse a positive integer. Raises ArgumentTypeError."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def positive_number(text: str) -> float:
    """Parse a finite number above 0. Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def address(text: str) -> tuple[str, int]:
    """Parse a host and a port, such as 127.0.0.1:6379. Raises ArgumentTypeError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not a host and a port, such as 127.0.0.1:6379")
    return host, int(port)


def fraction(text: str) -> float:
    """Parse a number in [0, 1]. Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return value
