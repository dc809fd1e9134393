"""Cache hits question by question, as a stacked area of the passages' tokens."""

from collections.abc import Sequence

import plotly.graph_objects as go

from backend.interface.cache import QueryStats
from ui.figures.base import apply_style

KINDS = ("exact", "chunk", "missed", "full")
COLOURS = {"exact": "#1f7d71", "chunk": "#62b9ac", "missed": "#d08a1d", "full": "#9aa0a6"}
_MAX_STEPS = 60
_NAMES = {"exact": "exact prefix hit", "chunk": "chunk hit", "missed": "miss", "full": "no lookup"}


def hit_rate_figure(queries: Sequence[QueryStats]) -> go.Figure:
    """Return the percentages of tokens by cache result, oldest question first."""
    edges, percentages = steps(queries)
    figure = go.Figure()
    for kind in KINDS:
        if not any(percentages[kind]):
            continue
        figure.add_scatter(
            x=edges,
            y=percentages[kind],
            name=_NAMES[kind],
            mode="lines",
            stackgroup="tokens",
            line={"shape": "hv", "width": 0, "color": COLOURS[kind]},
            fillcolor=COLOURS[kind],
            hovertemplate=f"{_NAMES[kind]}: %{{y:.0f}} %<extra></extra>",
        )
    apply_style(figure, height=230)
    figure.update_layout(hovermode="x unified")
    figure.update_yaxes(range=[0, 100], ticksuffix=" %", nticks=5)
    figure.update_xaxes(
        title={"text": "questions, oldest first", "standoff": 8},
        showgrid=False,
        tickformat="d",
        dtick=1 if len(queries) < 12 else None,
    )
    return figure


def steps(queries: Sequence[QueryStats]) -> tuple[list[float], dict[str, list[float]]]:
    """Return the curves of the figure: one step per question, or per mean of several adjacent questions.

    Returns the left edge of each step plus the right edge of the last one, and the percentages by kind at each edge.
    A question without passages makes no step.
    """
    counted = [query for query in queries if _tokens(query)]
    group_size = -(-len(counted) // _MAX_STEPS) or 1
    groups = [counted[start : start + group_size] for start in range(0, len(counted), group_size)]
    percentages: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for group in groups:
        total = sum(map(_tokens, group))
        for kind in KINDS:
            percentages[kind].append(100 * sum(getattr(query, kind) for query in group) / total)
    edges = [group[0].number - 0.5 for group in groups]
    if groups:  # the right edge of the last step
        edges.append(groups[-1][-1].number + 0.5)
        for kind in KINDS:
            percentages[kind].append(percentages[kind][-1])
    return edges, percentages


def _tokens(query: QueryStats) -> int:
    return sum(getattr(query, kind) for kind in KINDS)
