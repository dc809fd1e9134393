"""Numbers as a person reads them: always with a unit, which never starts a new line (U+00A0)."""

import time

UNKNOWN = "\u2013"  # a dash


def duration(ms: float | None) -> str:
    """Return '412 ms', '1.24 s' or, for what was not measured, a dash."""
    if ms is None:
        return UNKNOWN
    return f"{ms:.0f}\u00a0ms" if ms < 999.5 else f"{ms / 1000:.2f}\u00a0s"


def percent(ratio: float | None, digits: int = 0) -> str:
    """Return a ratio in [0, 1] as '18.2 %', or, for what is not known, a dash."""
    if ratio is None:
        return UNKNOWN
    return f"{ratio * 100:.{digits}f}\u00a0%"


def size(count: int) -> str:
    """Return bytes as '812 B', '34 kB', '1.2 MB' or '2.15 GB'."""
    if count < 1000:
        return f"{count}\u00a0B"
    if count >= 999_950_000:
        return f"{count / 1e9:.2f}\u00a0GB"
    return f"{count / 1000:.0f}\u00a0kB" if count < 999_500 else f"{count / 1e6:.1f}\u00a0MB"


def count(number: int, noun: str) -> str:
    """Return '1 page' or '1,204 pages'."""
    return f"{number:,}\u00a0{noun}" + ("" if number == 1 else "s")


def day(seconds: float) -> str:
    """Return a moment as '3 Oct 2026', in local time; a dash for one that no calendar has."""
    try:
        moment = time.localtime(seconds)
    except (ValueError, OverflowError, OSError):
        return UNKNOWN
    month = time.strftime("%b\u00a0%Y", moment)
    return f"{moment.tm_mday}\u00a0{month}"


def short(line: str, most: int = 90) -> str:
    """Return the first `most` characters of a text, on one line."""
    line = " ".join(line.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
