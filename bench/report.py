"""Rows as a table in the terminal, and a progress bar beside the work."""

import sys
from collections.abc import Iterable
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import track
from rich.table import Table

T = TypeVar("T")


def progress(work: Iterable[T], said: str) -> Iterable[T]:
    """Return `work` with a progress bar on standard error."""
    return track(work, description=said, console=Console(stderr=True), transient=True)


def show(title: str, columns: dict[str, str], rows: list[dict[str, Any]]) -> None:
    """Print one line a row; a figure that does not apply stays empty."""
    table = Table(title=title)
    for label in columns.values():
        table.add_column(label, justify="right")
    for row in rows:
        table.add_row(*(_written(row.get(key)) for key in columns))
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def _written(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return str(value)
