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
    return [ratio_figure(rows, value) for value in AXIS_TITLES if _points(rows, value)]


def ratio_figure(rows: Sequence[dict[str, Any]], value: str = "answer_kl") -> go.Figure:
    """Plot `value`, a key of `AXIS_TITLES`, against the actual ratio, one subplot per task."""
    plotted = _points(rows, value)
    tasks = list(dict.fromkeys(map(_task, plotted)))
    across = min(3, max(1, len(tasks)))
    down = -(-max(1, len(tasks)) // across)
    titles = [_title(next(row for row in plotted if _task(row) == task)) for task in tasks]
    figure = make_subplots(down, across, subplot_titles=titles, vertical_spacing=0.28 / down)
    named: set[str] = set()
    for place, task in enumerate(tasks):
        task_rows = [row for row in plotted if _task(row) == task]
        for method in dict.fromkeys(row["method"] for row in task_rows):
            points = sorted(
                (row for row in task_rows if row["method"] == method), key=lambda row: row["realised_ratio"]
            )
            figure.add_trace(_line(method, points, value, method not in named), place // across + 1, place % across + 1)
            named.add(method)
    figure.update_xaxes(title="actual recompute ratio", rangemode="tozero")
    figure.update_yaxes(title=AXIS_TITLES[value], rangemode="tozero")
    figure.update_layout(
        height=max(520, 380 * down), width=400 * across + 200, template="plotly_white", font={"size": 12}
    )
    return figure


def _points(rows: Sequence[dict[str, Any]], value: str) -> list[dict[str, Any]]:
    return [row for row in rows if {value, "realised_ratio"} <= row.keys() and row["method"] != "full"]


def _title(row: dict[str, Any]) -> str:
    tokens = f"{row['context_tokens']:,.0f} tokens" if "context_tokens" in row else f"{row['length']}"
    return f"{row.get('task', 'time')}, {tokens}" + (f"<br>{row['file']}" if "file" in row else "")


def _task(row: dict[str, Any]) -> tuple[str, str, int]:
    """Return the subplot of a row; files are kept apart, since they may come from different models."""
    return row.get("file", ""), row.get("task", ""), row["length"]


def _line(method: str, points: Sequence[dict[str, Any]], name: str, first: bool) -> go.Scatter:
    value = [row[name] for row in points]
    ends = [(row.get(f"{name}_low"), row.get(f"{name}_high")) for row in points]
    known = all(low is not None for low, _ in ends)
    return go.Scatter(
        x=[row["realised_ratio"] for row in points],
        y=value,
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [high - at for (_, high), at in zip(ends, value, strict=True)] if known else None,
            "arrayminus": [at - low for (low, _), at in zip(ends, value, strict=True)] if known else None,
            "thickness": 1,
        },
        mode="lines+markers",
        cliponaxis=False,  # ratio 0 lies on the axis
        name=method,
        legendgroup=method,
        showlegend=first,
        line={"color": _HUES.get(method.partition(":")[0], _OTHER_HUE), "width": 1.5},
        marker={"size": 7, "symbol": "circle" if method.startswith("cacheclip") else "diamond"},
    )
