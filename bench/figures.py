"""Pictures of rows: rows in, plotly figures out."""

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
_OTHER = "#9aa1ab"


def frontier(rows: Sequence[dict[str, Any]], distance: str = "answer_kl") -> go.Figure:
    """Return each task's distance from full prefill against the realised ratio: nearer to both axes is better.

    distance  'kl' of the first token or 'answer_kl' along the answer
    """
    shown = [row for row in rows if distance in row and "task" in row and row["method"] != "full"]
    tasks = list(dict.fromkeys(map(_task, shown)))
    across = min(3, max(1, len(tasks)))
    down = -(-max(1, len(tasks)) // across)
    titles = [_title(next(row for row in shown if _task(row) == task)) for task in tasks]
    figure = make_subplots(down, across, subplot_titles=titles, vertical_spacing=0.28 / down)
    named: set[str] = set()
    for place, task in enumerate(tasks):
        own = [row for row in shown if _task(row) == task]
        for method in dict.fromkeys(row["method"] for row in own):
            points = sorted((row for row in own if row["method"] == method), key=lambda row: row["realised_ratio"])
            figure.add_trace(
                _line(method, points, distance, method not in named), place // across + 1, place % across + 1
            )
            named.add(method)
    figure.update_xaxes(title="realised recompute ratio", rangemode="tozero")
    figure.update_yaxes(title="KL to full prefill, nats", rangemode="tozero")
    figure.update_layout(height=380 * down, width=400 * across + 200, template="plotly_white", font={"size": 12})
    return figure


def _title(row: dict[str, Any]) -> str:
    tokens = f"{row['context_tokens']:,.0f} tokens" if "context_tokens" in row else f"{row['length']}"
    return f"{row['task']}, {tokens}" + (f"<br>{row['file']}" if "file" in row else "")


def _task(row: dict[str, Any]) -> tuple[str, str, int]:
    """Rows of two files stand apart: they may come from other models."""
    return row.get("file", ""), row["task"], row["length"]


def _line(method: str, points: Sequence[dict[str, Any]], distance: str, first: bool) -> go.Scatter:
    value = [row[distance] for row in points]
    ends = [(row.get(f"{distance}_low"), row.get(f"{distance}_high")) for row in points]
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
        name=method,
        legendgroup=method,
        showlegend=first,
        line={"color": _HUES.get(method.partition(":")[0], _OTHER), "width": 1.5},
        marker={"size": 7, "symbol": "circle" if method.startswith("cacheclip") else "diamond"},
    )
