"""Print rows as a table in the terminal, format them as Markdown, and show a progress bar."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

T = TypeVar("T")
PIPED_WIDTH = 240  # characters per line where standard output is not a terminal
HEADINGS = {  # of row keys that are not their own heading
    "against_none": "x none",
    "alone_ratio": "x alone",
    "added_alone_ms": "added alone in ms",
    "added_ms": "added in ms",
    "answer_kl": "answer KL",
    "answer_top1": "answer top-1",
    "budget": "budget GiB",
    "busy_processes": "other processes",
    "context_tokens": "tokens",
    "floor_speedup": "ideal speedup",
    "full_ttft_ms": "full ms",
    "idle_ttft_ms": "otherwise, ms",
    "gap_ms": "ms between tokens",
    "gain_share": "fraction faster",
    "hit_speedup": "x on full hits",
    "jaccard": "Jaccard",
    "kl": "KL",
    "kernel_ms": "kernel ms",
    "kernel_speedup": "speedup",
    "left_out": "truncated",
    "max_gap_ms": "max ms",
    "max_ttft_ms": "max ms",
    "mean_ttft_ms": "mean TTFT ms",
    "median_us": "median \u00b5s",
    "overtaken": "max skips",
    "num_shown": "quotes shown",
    "ocr_pages": "OCR pages",
    "p50_ttft_ms": "p50 TTFT ms",
    "p95_ttft_ms": "p95 TTFT ms",
    "p99_ttft_ms": "p99 ms",
    "p99_us": "p99 \u00b5s",
    "prefill_ms": "prefill ms",
    "prefill_ratio": "x KVScope's prefill",
    "decode_ratio": "x KVScope's decoding",
    "prefill_length": "prefilled meanwhile",
    "stream_ratio": "x one answer",
    "rss_mb": "peak MB",
    "rss_slope_mb_per_min": "MB per minute",
    "tokens_per_s": "tokens/s",
    "plain_total_ms": "total without, ms",
    "plain_ttft_ms": "without, ms",
    "quote_shown": "right quote shown",
    "realised_ratio": "actual ratio",
    "rq": "RQ",
    "throughput": "questions/s",
    "top1": "top-1",
    "torch_ms": "torch ms",
    "torch_tokens_per_second": "by torch",
    "ttft_ratio": "x otherwise",
    "ttft_ms": "TTFT ms",
}


def columns_of(keys: str) -> dict[str, str]:
    """Return the headings of a table by row key; `keys` are separated by spaces."""
    ends = {key: key.rpartition("_")[2] for key in keys.split() if key.endswith(("_low", "_high"))}
    return {key: ends.get(key) or HEADINGS.get(key) or key.replace("_", " ") for key in keys.split()}


def progress(items: Sequence[T], description: str) -> Iterable[T]:
    """Yield `items` while showing a progress bar on standard error."""
    parts = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), "left", TimeRemainingColumn()
    with Progress("{task.description}", *parts, console=Console(stderr=True), transient=True) as bar:
        yield from bar.track(items, description=description)


def print_table(title: str, columns: dict[str, str], rows: Sequence[dict[str, Any]]) -> None:
    """Print one line per row, without empty columns, and without intervals if the terminal is too narrow for them."""
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    table = _table(title, columns, rows, with_intervals=True)
    if console.measure(table, options=console.options.update(max_width=10 * PIPED_WIDTH)).maximum > console.width:
        table = _table(title, columns, rows, with_intervals=False)
    console.print(table)


def _table(title: str, columns: dict[str, str], rows: Sequence[dict[str, Any]], with_intervals: bool) -> Table:
    headings, cells = _cells(columns, rows, with_intervals)
    table = Table(title=title, box=None, padding=(0, 1), collapse_padding=True, pad_edge=False)
    for heading, values in zip(headings.values(), zip(*cells, strict=True), strict=True):
        table.add_column(heading, justify="right", min_width=max(map(len, values)))  # headings may wrap, values may not
    for row in cells:
        table.add_row(*row)
    return table


def markdown(columns: dict[str, str], rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table; columns without values are left out."""
    headings, cells = _cells(columns, rows)
    is_text = [any(isinstance(row.get(key), str) for row in rows) for key in headings]
    lines = ["| " + " | ".join(line) + " |" for line in ([*headings.values()], *cells)]
    lines.insert(1, "|" + "|".join("---" if text else "---:" for text in is_text) + "|")
    return "\n".join(lines)


def _cells(
    columns: dict[str, str], rows: Sequence[dict[str, Any]], with_intervals: bool = True
) -> tuple[dict[str, str], list[list[str]]]:
    """Return the headings of the columns that have values, and each row's values with the intervals no column shows."""
    filled = {key: heading for key, heading in columns.items() if any(row.get(key) is not None for row in rows)}

    def cell(row: dict[str, Any], key: str) -> str:
        low, high = row.get(f"{key}_low"), row.get(f"{key}_high")
        if not with_intervals or f"{key}_low" in filled or low is None or high is None:
            return format_value(row.get(key))
        to = "\u2013" if low >= 0 else " to "
        return f"{format_value(row.get(key))} ({format_value(low)}{to}{format_value(high)})"

    return filled, [[cell(row, key) for key in filled] for row in rows]


def format_value(value: Any) -> str:
    """Format a value with three significant digits; None as an empty string."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return str(value)
