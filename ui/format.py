"""Numbers as text, with their units. A no-break space (U+00A0) keeps number and unit on one line."""

import time

GIB = 2**30
UNKNOWN = "\u2013"  # an en dash


def duration(ms: float | None) -> str:
    """Return '412 ms' or '1.24 s'; a dash for None."""
    if ms is None:
        return UNKNOWN
    return f"{ms:.0f}\u00a0ms" if ms < 999.5 else f"{ms / 1000:.2f}\u00a0s"


def percent(ratio: float | None, digits: int = 0) -> str:
    """Return a ratio in [0, 1] as '18.2 %'; a dash for None."""
    return UNKNOWN if ratio is None else f"{ratio * 100:.{digits}f}\u00a0%"


def size(num_bytes: int) -> str:
    """Return '812 B', '34 kB', '1.2 MB' or '2.15 GB'."""
    if num_bytes < 1000:
        return f"{num_bytes}\u00a0B"
    if num_bytes >= 999_950_000:
        return f"{num_bytes / 1e9:.2f}\u00a0GB"
    return f"{num_bytes / 1000:.0f}\u00a0kB" if num_bytes < 999_500 else f"{num_bytes / 1e6:.1f}\u00a0MB"


def parameters(number: int) -> str:
    """Return '135 M parameters' or '1.7 B parameters'."""
    if number >= 999_500_000:
        return f"{number / 1e9:.1f}\u00a0B parameters"
    return f"{number / 1e6:.0f}\u00a0M parameters" if number >= 1e6 else f"{number:,} parameters"


def token_rate(tokens_per_second: float) -> str:
    """Return '28 tokens/s' or '8.3 tokens/s'."""
    return f"{tokens_per_second:.{0 if tokens_per_second >= 9.95 else 1}f}\u00a0tokens/s"


def count(number: int, noun: str) -> str:
    """Return '1 page' or '1,204 pages'."""
    return f"{number:,}\u00a0{noun}" + ("" if number == 1 else "s")


def day(seconds: float) -> str:
    """Return a Unix time as '3 Oct 2026', in local time; a dash if it is out of range."""
    try:
        date = time.localtime(seconds)
    except (ValueError, OverflowError, OSError):
        return UNKNOWN
    return f"{date.tm_mday}\u00a0" + time.strftime("%b\u00a0%Y", date)


def short(line: str, max_chars: int = 90) -> str:
    """Return a text on one line, cut to `max_chars` characters with an ellipsis."""
    line = " ".join(line.split())
    return line if len(line) <= max_chars else f"{line[: max_chars - 1].rstrip()}…"
