"""Time to first token against nearness to full prefill: who is fast, who is near, and which points nobody beats."""

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from engine.analysis.comparison import Outcome
from ui.figures.labels import label

EXACT = 1e-6  # nats; below this an arm is full prefill up to rounding
_HUES = ("#2f9e8f", "#d08a1d", "#8b7bd8", "#d0587e", "#4f8fd6", "#7f9c3a", "#b9755a", "#7c8694")
_SYMBOLS = ("circle", "square", "triangle-up", "pentagon", "hexagon", "triangle-down", "cross", "x")
_TEXT = "#80858d"  # the page's style sheet puts the theme's own colour over it
_QUIET = "rgba(128,133,141,0.55)"


def frontier(outcomes: Sequence[Outcome]) -> go.Figure:
    """Return a point for each outcome: TTFT across, KL along the answer upwards, logarithmic; low and left is best.

    A KL of zero has no logarithm and stands on a line of its own below the others. A grey line from each point leads
    back to its floor. The dotted steps join the points that no other beats in both.
    """
    scale = _Scale([outcome.answer_kl for outcome in outcomes])
    figure = go.Figure()
    _add_floors(figure, outcomes, scale)
    _add_front(figure, outcomes, scale)
    for number, method in enumerate(dict.fromkeys(outcome.method for outcome in outcomes)):
        own = sorted((each for each in outcomes if each.method == method), key=lambda each: each.ratio or 0.0)
        full = method == "full"
        figure.add_trace(
            go.Scatter(
                x=[each.ttft_ms for each in own],
                y=[scale.of(each.answer_kl) for each in own],
                name=label(own[0].label),
                mode="lines+markers+text",
                text=["" if each.ratio is None else f"{100 * each.ratio:g} %" for each in own],
                textposition="top center",
                cliponaxis=False,
                line={"width": 1, "color": _QUIET},
                marker={
                    "size": 15 if full else 12,
                    "color": _TEXT if full else _HUES[(number - 1) % len(_HUES)],
                    "symbol": "star" if full else _SYMBOLS[(number - 1) % len(_SYMBOLS)],
                },
                customdata=[(each.answer_kl, 100 * each.rt, each.floor_ms, 100 * each.realised_ratio) for each in own],
                hovertemplate=(
                    "%{x:,.0f} ms, %{customdata[1]:.0f} % of full prefill<br>KL %{customdata[0]:.2g} nats<br>"
                    "%{customdata[3]:.1f} % recomputed<br>floor %{customdata[2]:,.0f} ms"
                ),
            )
        )
    slowest = max((outcome.ttft_ms for outcome in outcomes), default=1.0)
    figure.update_layout(
        height=380,
        margin={"l": 8, "r": 16, "t": 20, "b": 8},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12, "color": _TEXT},
        legend={"orientation": "h", "yanchor": "top", "y": -0.18, "x": 0, "itemclick": False, "itemdoubleclick": False},
        hoverlabel={"namelength": -1},
        dragmode=False,
    )
    figure.update_xaxes(
        title={"text": "time to first token, ms", "standoff": 8, "font": {"size": 12}},
        range=[0, slowest * 1.1],
        gridcolor="rgba(128,133,141,0.18)",
        zeroline=False,
        fixedrange=True,
        nticks=7,
        tickformat=",",
    )
    figure.update_yaxes(
        title={"text": "KL to full prefill, nats", "standoff": 8, "font": {"size": 12}},
        range=scale.range,
        tickvals=scale.ticks,
        ticktext=scale.names,
        gridcolor="rgba(128,133,141,0.18)",
        zeroline=False,
        fixedrange=True,
        automargin=True,
    )
    return figure


def front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points (ms, KL) that no other beats or equals in one and beats in the other, the fastest first."""
    best: list[tuple[float, float]] = []
    for point in sorted(set(points)):
        if not best or point[1] < best[-1][1]:
            best.append(point)
    return best


class _Scale:
    """Decades upwards, and a place for zero half a decade below the lowest of them."""

    def __init__(self, values: Sequence[float]) -> None:
        heights = [math.log10(value) for value in values if value >= EXACT]
        low, high = (min(heights), max(heights)) if heights else (-3.0, -3.0)
        self.zero = math.floor(low) - 0.5
        decades = range(math.floor(low), math.ceil(high) + 1) if heights else range(0)
        self.ticks = [self.zero, *map(float, decades)]
        self.names = ["0", *(f"{10.0**decade:g}" for decade in decades)]
        self.range = [self.zero - 0.3, max(high, self.zero + 1.0) + 0.35]

    def of(self, value: float) -> float:
        """Return the height of a KL."""
        return math.log10(value) if value >= EXACT else self.zero


def _add_floors(figure: go.Figure, outcomes: Sequence[Outcome], scale: _Scale) -> None:
    across: list[float | None] = []
    upwards: list[float | None] = []
    for outcome in outcomes:
        if outcome.method != "full":
            across += [outcome.floor_ms, outcome.ttft_ms, None]
            upwards += [scale.of(outcome.answer_kl)] * 2 + [None]
    figure.add_trace(
        go.Scatter(
            x=across,
            y=upwards,
            showlegend=False,
            mode="lines+markers",
            line={"width": 2, "color": _QUIET},
            marker={"symbol": "line-ns-open", "size": 9, "color": _TEXT, "opacity": [1, 0, 0] * (len(across) // 3)},
            hoverinfo="skip",
            visible=bool(across),
        )
    )


def _add_front(figure: go.Figure, outcomes: Sequence[Outcome], scale: _Scale) -> None:
    points = front([(outcome.ttft_ms, scale.of(outcome.answer_kl)) for outcome in outcomes])
    figure.add_trace(
        go.Scatter(
            x=[x for x, _ in points],
            y=[y for _, y in points],
            showlegend=False,
            mode="lines",
            line={"width": 1.5, "dash": "dot", "color": _TEXT, "shape": "hv"},
            hoverinfo="skip",
            visible=len(points) > 1,
        )
    )
