"""Report measured rows: Markdown tables, and a self-contained page of plots.

ROWS are files written by `--json`. The output folder gets `report.md` and `report.html`.
"""

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from bench.cache import run as cache
from bench.errors import InvalidDataset
from bench.measures import attention, decode, quality, scoring, tiers, ttft
from bench.reporting.figures import figures
from bench.tables import markdown

TITLE = "tables and plots of measured rows"
KINDS = [measure.COLUMNS for measure in (quality, attention, ttft, scoring, decode, tiers, cache)]
COLUMNS = {"file": "file", "rows": "rows"}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the report."""
    parser.add_argument("rows", nargs="+", type=Path, metavar="ROWS", help="files written by --json")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Write the report; return the number of rows per file."""
    tables, all_rows, counts = [], list[dict[str, Any]](), []
    for path in arguments.rows:
        rows = _read(path)
        all_rows += [{**row, "file": path.stem} for row in rows]
        counts.append({"file": path.stem, "rows": len(rows)})
        tables.append(f"## {path.stem}\n\n{markdown(columns_for(rows), rows)}\n")
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "report.md").write_text("\n".join(["# Results", "", *tables]), encoding="utf-8")
    plots = figures(all_rows)
    drawn = [figure.to_html(full_html=False, include_plotlyjs=not number) for number, figure in enumerate(plots)]
    page = "<!doctype html>\n<meta charset=utf-8>\n<title>Results</title>\n" + "\n".join(drawn or ["Nothing to plot."])
    (arguments.out / "report.html").write_text(page, encoding="utf-8")
    return counts


def columns_for(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the columns of the measure that the rows come from: those with the most keys in common."""
    keys = {name for row in rows for name in row}
    return max(KINDS, key=lambda columns: len(columns.keys() & keys))


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidDataset(f"{path} cannot be read: {error}.") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidDataset(f"{path} is not a list of rows as --json writes it.")
    return rows
