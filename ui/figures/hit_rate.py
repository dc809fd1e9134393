"""How much of what questions read was found, question by question, as a stacked area."""

from collections.abc import Sequence

import plotly.graph_objects as go

from backend.interface.cache import QueryStats

KINDS = ("exact", "chunk", "missed", "full")
NAMES = {"exact": "exact prefix", "chunk": "found by content", "missed": "computed", "full": "not looked for"}
HUES = {"exact": "#1f7d71", "chunk": "#62b9ac", "missed": "#d08a1d", "full": "#9aa0a6"}
STEPS = 60  # at most; a step is one question, or the mean of several neighbours
_TEXT = "#80858d"  # the page's style sheet puts the theme's own colour over it


def hits(recent: Sequence[QueryStats]) -> go.Figure:
    """Return the share of the passages' tokens by how they were served, oldest question first."""
    numbers, shares = steps(recent)
    figure = go.Figure()
    for kind in KINDS:
        if not any(shares[kind]):
            continue
        figure.add_scatter(
            x=numbers,
            y=shares[kind],
            name=NAMES[kind],
            mode="lines",
            stackgroup="tokens",
            line={"shape": "hv", "width": 0, "color": HUES[kind]},
            fillcolor=HUES[kind],
            hovertemplate=f"{NAMES[kind]}: %{{y:.0f}} %<extra></extra>",
        )
    figure.update_layout(
        height=230,
        margin={"l": 4, "r": 4, "t": 8, "b": 40},
        showlegend=False,
        hovermode="x unified",
        dragmode=False,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12, "color": _TEXT},
    )
    figure.update_yaxes(
        range=[0, 100], ticksuffix=" %", nticks=5, automargin=True, gridcolor="rgba(128,133,141,0.22)", fixedrange=True
    )
    figure.update_xaxes(
        title={"text": "question, in the order they were asked", "standoff": 8, "font": {"size": 12}},
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        tickformat="d",
        dtick=1 if len(recent) < 12 else None,
    )
    return figure


def steps(recent: Sequence[QueryStats], most: int = STEPS) -> tuple[list[float], dict[str, list[float]]]:
    """Return at most `most` steps and one end: where each begins, and its shares in percent by kind.

    A question without passages has no shares and makes no step.
    """
    asked = [one for one in recent if sum(getattr(one, kind) for kind in KINDS)]
    wide = -(-len(asked) // most) or 1
    groups = [asked[start : start + wide] for start in range(0, len(asked), wide)]
    shares: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for group in groups:
        sums = {kind: sum(getattr(one, kind) for one in group) for kind in KINDS}
        for kind in KINDS:
            shares[kind].append(100 * sums[kind] / sum(sums.values()))
    numbers = [group[0].number - 0.5 for group in groups]
    if groups:  # the last step has a width as well
        numbers.append(groups[-1][-1].number + 0.5)
        for kind in KINDS:
            shares[kind].append(shares[kind][-1])
    return numbers, shares
