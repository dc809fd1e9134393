"""Plot measured rows with plotly."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

_HUES = {
    "cacheclip": "#d08a1d",
    "cacheclip-joint": "#b3261e",
    "cacheclip-trained": "#c2407f",
    "cacheblend": "#3b6fd4",
    "prophetkv": "#2f9e8f",
    "epic": "#8b7bd8",
    "ape": "#6b8e23",
    "oracle": "#222222",
}
_OTHER_HUE = "#9aa1ab"
AXIS_TITLES = {
    "answer_kl": "answer KL to full prefill, nats",
    "quality": "quality",
    "speedup": "speedup over full prefill",
}


def figures(rows: Sequence[dict[str, Any]]) -> list[go.Figure]:
    """Return a figure for each key of `AXIS_TITLES` that the rows have."""
    plotted = [row for row in rows if "realised_ratio" in row and row["method"] != "full"]
    by_value = {value: [row for row in plotted if value in row] for value in AXIS_TITLES}
    return [_ratio_figure(value_rows, value) for value, value_rows in by_value.items() if value_rows]


def _ratio_figure(rows: Sequence[dict[str, Any]], value: str) -> go.Figure:
    """Plot `value`, a key of `AXIS_TITLES`, against the actual ratio: one subplot per file, task and length."""
    subplots: dict[tuple[str, str, int], dict[str, list[dict[str, Any]]]] = {}
    titles: list[str] = []
    for row in rows:
        place = row.get("file", ""), row.get("task", ""), row["length"]  # files may come from different models
        if place not in subplots:
            titles.append(_title(row))
        subplots.setdefault(place, {}).setdefault(row["method"], []).append(row)
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
    figure.update_layout(
        height=max(520, 380 * down), width=400 * across + 200, template="plotly_white", font={"size": 12}
    )
    return figure


def _title(row: dict[str, Any]) -> str:
    tokens = f"{row['context_tokens']:,.0f} tokens" if "context_tokens" in row else f"{row['length']}"
    return f"{row.get('task', 'time')}, {tokens}" + (f"<br>{row['file']}" if "file" in row else "")


def _line(method: str, points: Sequence[dict[str, Any]], name: str) -> go.Scatter:
    has_intervals = all(f"{name}_low" in row for row in points)
    return go.Scatter(
        x=[row["realised_ratio"] for row in points],
        y=[row[name] for row in points],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [row[f"{name}_high"] - row[name] for row in points] if has_intervals else None,
            "arrayminus": [row[name] - row[f"{name}_low"] for row in points] if has_intervals else None,
            "thickness": 1,
        },
        mode="lines+markers",
        cliponaxis=False,  # ratio 0 lies on the axis
        name=method,
        legendgroup=method,
        line={"color": _HUES.get(method.partition(":")[0], _OTHER_HUE), "width": 1.5},
        marker={"size": 7, "symbol": "circle" if method.startswith("cacheclip") else "diamond"},
    )
