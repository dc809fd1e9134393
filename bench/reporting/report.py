"""Report measured rows: Markdown tables, and a self-contained page of plots.

ROWS are files written by `--json`. The output folder gets `report.md` and `report.html`.
"""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from bench.commands import MEASURES
from bench.errors import InvalidDataset
from bench.tables import columns_of, markdown

TITLE = "tables and plots of measured rows"
KINDS = [measure.COLUMNS for measure in MEASURES.values()]
COLUMNS = columns_of("file rows")
_HUES = {
    "cacheclip": "#d08a1d",
    "cacheclip-joint": "#b3261e",
    "cacheclip-trained": "#c2407f",
    "cacheclip-adaptive": "#e58aa8",
    "cacheblend": "#3b6fd4",
    "prophetkv": "#2f9e8f",
    "infoflow": "#7a4a1e",
    "qcfuse": "#4fb3d9",
    "epic": "#8b7bd8",
    "ape": "#6b8e23",
    "oracle": "#222222",
}
AXIS_TITLES = {
    "answer_kl": "answer KL to full prefill, nats",
    "quality": "quality",
    "speedup": "speedup over full prefill",
}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the report."""
    parser.add_argument("rows", nargs="+", type=Path, metavar="ROWS", help="files written by --json")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Write the report; return the number of rows per file."""
    files = [(path.stem, _read(path)) for path in arguments.rows]
    tables = [f"## {name}\n\n{markdown(columns_for(rows), rows)}\n" for name, rows in files]
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "report.md").write_text("\n".join(["# Results", "", *tables]), encoding="utf-8")
    plots = figures([{**row, "file": name} for name, rows in files for row in rows])
    drawn = [figure.to_html(full_html=False, include_plotlyjs=not number) for number, figure in enumerate(plots)]
    page = "<!doctype html>\n<meta charset=utf-8>\n<title>Results</title>\n" + "\n".join(drawn or ["Nothing to plot."])
    (arguments.out / "report.html").write_text(page, encoding="utf-8")
    return [{"file": name, "rows": len(rows)} for name, rows in files]


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


def figures(rows: Sequence[dict[str, Any]]) -> list[go.Figure]:
    """Return a figure for each key of `AXIS_TITLES` that the rows have."""
    plotted = [row for row in rows if "realised_ratio" in row and row["method"] != "full"]
    by_value = {value: [row for row in plotted if value in row] for value in AXIS_TITLES}
    return [_ratio_figure(value_rows, value) for value, value_rows in by_value.items() if value_rows]


def _ratio_figure(rows: Sequence[dict[str, Any]], value: str) -> go.Figure:
    """Plot `value`, a key of `AXIS_TITLES`, against the actual ratio: one subplot per file, task and length."""
    subplots: dict[tuple[str, str, int], dict[str, list[dict[str, Any]]]] = {}  # points by subplot and method
    for row in rows:
        place = row["file"], row.get("task", "time"), row["length"]  # files may come from different models
        subplots.setdefault(place, {}).setdefault(row["method"], []).append(row)
    titles = [_title(next(iter(lines.values()))[0]) for lines in subplots.values()]
    across = min(3, len(subplots))
    down = -(-len(subplots) // across)
    figure = make_subplots(down, across, subplot_titles=titles, vertical_spacing=0.28 / down)
    in_legend: set[str] = set()
    for number, lines in enumerate(subplots.values()):
        for method, points in lines.items():
            line = _line(method, sorted(points, key=lambda row: row["realised_ratio"]), value)
            line.showlegend = method not in in_legend
            figure.add_trace(line, number // across + 1, number % across + 1)
            in_legend.add(method)
    figure.update_xaxes(title="actual recompute ratio", rangemode="tozero")
    figure.update_yaxes(title=AXIS_TITLES[value], rangemode="tozero")
    size = {"height": max(520, 380 * down), "width": 400 * across + 200}
    return figure.update_layout(**size, template="plotly_white", font={"size": 12})


def _title(row: dict[str, Any]) -> str:
    tokens = f"{row['context_tokens']:,.0f} tokens" if "context_tokens" in row else f"{row['length']}"
    return f"{row.get('task', 'time')}, {tokens}<br>{row['file']}"


def _line(method: str, points: Sequence[dict[str, Any]], name: str) -> go.Scatter:
    error_y: dict[str, Any] = {"type": "data", "symmetric": False, "thickness": 1}
    if all(f"{name}_low" in row for row in points):
        error_y["array"] = [row[f"{name}_high"] - row[name] for row in points]
        error_y["arrayminus"] = [row[name] - row[f"{name}_low"] for row in points]
    return go.Scatter(
        x=[row["realised_ratio"] for row in points],
        y=[row[name] for row in points],
        error_y=error_y,
        mode="lines+markers",
        cliponaxis=False,  # or markers at ratio 0 would be cut off at the axis
        name=method,
        legendgroup=method,
        line={"color": _HUES.get(method.partition(":")[0], "#9aa1ab"), "width": 1.5},
        marker={"size": 7, "symbol": "circle" if method.startswith("cacheclip") else "diamond"},
    )
