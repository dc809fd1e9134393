"""Print rows as a table in the terminal, format them as Markdown, and show a progress bar."""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

T = TypeVar("T")
Cell = Callable[[dict[str, Any], str, dict[str, str]], str]
PIPED_WIDTH = 240  # characters per line where standard output is not a terminal


def progress(items: Sequence[T], description: str) -> Iterable[T]:
    """Yield `items` while showing a progress bar on standard error."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        yield from bar.track(items, description=description)


def print_table(title: str, columns: dict[str, str], rows: list[dict[str, Any]]) -> None:
    """Print one line per row; columns without values are left out.

    Intervals are left out if the terminal is too narrow for them.
    """
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    table = _table(title, columns, rows, _cell)
    if console.measure(table, options=console.options.update(max_width=10 * PIPED_WIDTH)).maximum > console.width:
        table = _table(title, columns, rows, lambda row, key, _: format_value(row.get(key)))
    console.print(table)


def _table(title: str, columns: dict[str, str], rows: list[dict[str, Any]], cell: Cell) -> Table:
    kept = _filled(columns, rows)
    table = Table(title=title, box=None, padding=(0, 1), collapse_padding=True, pad_edge=False)
    cells = [[cell(row, key, kept) for key in kept] for row in rows]
    for label, column in zip(kept.values(), zip(*cells, strict=True), strict=True):
        table.add_column(label, justify="right", min_width=max(map(len, column)))  # headings may wrap, values may not
    for row in cells:
        table.add_row(*row)
    return table


def markdown(columns: dict[str, str], rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table; columns without values are left out."""
    kept = _filled(columns, rows)
    text_keys = [key for key in kept if any(isinstance(row.get(key), str) for row in rows)]
    lines = [
        "| " + " | ".join(kept.values()) + " |",
        "|" + "|".join("---" if key in text_keys else "---:" for key in kept) + "|",
        *("| " + " | ".join(_cell(row, key, kept) for key in kept) + " |" for row in rows),
    ]
    return "\n".join(lines)


def _filled(columns: dict[str, str], rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    return {key: label for key, label in columns.items() if any(row.get(key) is not None for row in rows)}


def _cell(row: dict[str, Any], key: str, columns: dict[str, str]) -> str:
    """Format a value, with its interval if the row has one that no column shows."""
    low, high = f"{key}_low", f"{key}_high"
    if low in columns or row.get(low) is None or row.get(high) is None:
        return format_value(row.get(key))
    to = "\u2013" if row[low] >= 0 else " to "
    return f"{format_value(row.get(key))} ({format_value(row[low])}{to}{format_value(row[high])})"


def format_value(value: Any) -> str:
    """Format a value with three significant digits; None as an empty string."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return str(value)
