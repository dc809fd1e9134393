"""Cache hits question by question, as a stacked area of the passages' tokens."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from backend.interface.cache import QueryStats
from ui.figures.base import apply_style

COLOURS = {"exact": "#1f7d71", "chunk": "#62b9ac", "missed": "#d08a1d", "full": "#9aa0a6"}
KINDS = tuple(COLOURS)
_NAMES = {"exact": "exact prefix hit", "chunk": "chunk hit", "missed": "miss", "full": "no lookup"}
_MAX_STEPS = 60


def hit_rate_figure(queries: Sequence[QueryStats]) -> go.Figure:
    """Return the percentages of tokens by cache result, oldest question first."""
    edges, percentages = steps(queries)
    figure = go.Figure()
    for kind, colour in COLOURS.items():
        if not any(percentages[kind]):
            continue
        figure.add_scatter(
            x=edges,
            y=percentages[kind],
            name=_NAMES[kind],
            mode="lines",
            stackgroup="tokens",
            line={"shape": "hv", "width": 0, "color": colour},
            fillcolor=colour,
            hovertemplate=f"{_NAMES[kind]}: %{{y:.0f}} %<extra></extra>",
        )
    apply_style(figure, height=230)
    figure.update_layout(hovermode="x unified")
    figure.update_yaxes(range=[0, 100], ticksuffix=" %", nticks=5)
    dtick = 1 if len(queries) < 12 else None
    figure.update_xaxes(title_text="questions, oldest first", showgrid=False, tickformat="d", dtick=dtick)
    return figure


def steps(queries: Sequence[QueryStats]) -> tuple[list[float], dict[str, list[float]]]:
    """Return the curves of the figure: one step per question, or per mean of several adjacent questions.

    Returns the left edge of each step plus the right edge of the last one, and the percentages by kind at each edge.
    A question without passages makes no step.
    """
    tokens = np.array([[getattr(query, kind) for kind in KINDS] for query in queries]).reshape(-1, len(KINDS))
    counted = np.flatnonzero(tokens.sum(axis=1))
    if not len(counted):
        return [], {kind: [] for kind in KINDS}
    starts = np.arange(0, len(counted), -(-len(counted) // _MAX_STEPS))
    sums = np.add.reduceat(tokens[counted], starts)
    percentages = 100 * sums / sums.sum(axis=1, keepdims=True)
    percentages = np.vstack([percentages, percentages[-1:]])
    edges = [queries[index].number - 0.5 for index in counted[starts]]
    return [*edges, queries[counted[-1]].number + 0.5], dict(zip(KINDS, percentages.T.tolist(), strict=True))
