"""Numbers as text: the only place that chooses units and precision, also for the axes of figures.

Sizes are binary, as in the flags of the cache budgets. A no-break space (U+00A0) keeps number and unit on one line.
"""

import math
import time

KIB, MIB, GIB = 2**10, 2**20, 2**30
UNKNOWN = "\u2013"  # an en dash
SHORT_TOKENS = 2000  # of the passages; full prefill of fewer is fast, so there is little to save
MIN_KL = 1e-6  # nats; a smaller KL divergence is rounding error


def duration(ms: float | None) -> str:
    """Return '<1 ms', '412 ms' or '1.24 s'; a dash for None."""
    if ms is None:
        return UNKNOWN
    if ms < 0.5:
        return "<1\u00a0ms" if ms > 0 else "0\u00a0ms"
    return f"{ms:.0f}\u00a0ms" if ms < 999.5 else f"{ms / 1000:.2f}\u00a0s"


def duration_ticks(max_ms: float) -> tuple[list[float], list[str]]:
    """Return at most six round times from 0 to `max_ms`, and their labels: all in ms, or all in s."""
    max_ms = max(max_ms, 1.0)
    power = 10.0 ** math.floor(math.log10(max_ms / 5))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= max_ms / 5)
    ticks = [index * step for index in range(int(max_ms / step) + 1)]
    in_seconds = max_ms >= 999.5
    return ticks, [f"{tick / 1000:g}\u00a0s" if in_seconds else f"{tick:g}\u00a0ms" for tick in ticks]


def cost_per_token(ms: float) -> str:
    """Return '0.42 ms per token'."""
    return f"{ms:,.2f}\u00a0ms per token"


def nats(kl: float) -> str:
    """Return a KL divergence as '0.127', '0.0031' or '0.00002'; '0' if it is rounding error."""
    if kl < MIN_KL:
        return "0"
    decimals = 3 if kl >= 0.1 else 1 - math.floor(math.log10(kl))  # two digits
    text = f"{kl:.{decimals}f}"
    return text if kl >= 0.1 else text.rstrip("0")


def percent(ratio: float | None, digits: int = 0) -> str:
    """Return a ratio in [0, 1] as '18.2 %'; a dash for None."""
    return UNKNOWN if ratio is None else f"{ratio * 100:.{digits}f}\u00a0%"


def size(num_bytes: int) -> str:
    """Return '812 B', '34 KiB', '1.2 MiB' or '2.15 GiB'."""
    if num_bytes < KIB:
        return f"{num_bytes}\u00a0B"
    if num_bytes >= GIB - 0.05 * MIB:
        return f"{num_bytes / GIB:.2f}\u00a0GiB"
    return f"{num_bytes / KIB:.0f}\u00a0KiB" if num_bytes < MIB - KIB / 2 else f"{num_bytes / MIB:.1f}\u00a0MiB"


def parameters(number: int) -> str:
    """Return '135 M parameters' or '1.7 B parameters'."""
    if number >= 999_500_000:
        return f"{number / 1e9:.1f}\u00a0B parameters"
    return f"{number / 1e6:.0f}\u00a0M parameters" if number >= 1e6 else f"{number:,} parameters"


def rate(tokens_per_second: float | None) -> str:
    """Return tokens per second as '28' or '8.3'; a dash for None."""
    if tokens_per_second is None:
        return UNKNOWN
    return f"{tokens_per_second:.{0 if tokens_per_second >= 9.95 else 1}f}"


def token_rate(tokens_per_second: float) -> str:
    """Return '28 tokens/s' or '8.3 tokens/s'."""
    return f"{rate(tokens_per_second)}\u00a0tokens/s"


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
