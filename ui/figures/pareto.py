"""The trade-off between time to first token and KL divergence from full prefill, with its Pareto front."""

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from engine.analysis.comparison import Outcome
from ui.figures.base import TEXT_COLOUR, apply_style
from ui.figures.labels import plotly_label

MIN_KL = 1e-6  # nats; a smaller KL divergence is rounding error
_COLOURS = ("#2f9e8f", "#d08a1d", "#8b7bd8", "#d0587e", "#4f8fd6", "#7f9c3a", "#b9755a", "#7c8694")
_SYMBOLS = ("circle", "square", "triangle-up", "pentagon", "hexagon", "triangle-down", "cross", "x")
_FAINT = "rgba(128,133,141,0.55)"


def pareto_figure(outcomes: Sequence[Outcome]) -> go.Figure:
    """Return one point per outcome: TTFT on the x axis, answer KL on a logarithmic y axis; lower left is best.

    A KL of zero has no logarithm and is drawn on a line below all others. A grey line leads from each point to its
    ideal TTFT. Dotted steps connect the Pareto-optimal points.
    """
    scale = _LogScale([outcome.answer_kl for outcome in outcomes])
    figure = go.Figure()
    _add_ideals(figure, outcomes, scale)
    _add_front(figure, outcomes, scale)
    for index, method in enumerate(dict.fromkeys(outcome.method for outcome in outcomes)):
        points = sorted((each for each in outcomes if each.method == method), key=lambda each: each.ratio or 0.0)
        is_full = method == "full"
        figure.add_scatter(
            x=[point.ttft_ms for point in points],
            y=[scale.height(point.answer_kl) for point in points],
            name=plotly_label(points[0].label),
            mode="lines+markers+text",
            text=["" if point.ratio is None else f"{100 * point.ratio:g} %" for point in points],
            textposition="top center",
            cliponaxis=False,
            line={"width": 1, "color": _FAINT},
            marker={
                "size": 15 if is_full else 12,
                "color": TEXT_COLOUR if is_full else _COLOURS[(index - 1) % len(_COLOURS)],
                "symbol": "star" if is_full else _SYMBOLS[(index - 1) % len(_SYMBOLS)],
            },
            customdata=[
                (point.answer_kl, 100 * point.relative_ttft, point.ideal_ms, 100 * point.actual_ratio)
                for point in points
            ],
            hovertemplate=(
                "%{x:,.0f} ms, %{customdata[1]:.0f} % of full prefill<br>KL %{customdata[0]:.2g} nats<br>"
                "%{customdata[3]:.1f} % recomputed<br>ideal (FLOP bound) %{customdata[2]:,.0f} ms"
            ),
        )
    slowest_ms = max((outcome.ttft_ms for outcome in outcomes), default=1.0)
    apply_style(figure, height=380)
    figure.update_layout(
        margin={"l": 8, "r": 16, "t": 20, "b": 8},
        showlegend=True,
        legend={"orientation": "h", "yanchor": "top", "y": -0.18, "x": 0, "itemclick": False, "itemdoubleclick": False},
        hoverlabel={"namelength": -1},
    )
    figure.update_xaxes(
        title={"text": "time to first token, ms", "standoff": 8}, range=[0, slowest_ms * 1.1], nticks=7, tickformat=","
    )
    figure.update_yaxes(
        title={"text": "KL from full prefill, nats", "standoff": 8},
        range=scale.range,
        tickvals=scale.ticks,
        ticktext=scale.names,
    )
    return figure


def pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the Pareto-optimal points (ms, KL), fastest first: no other point is at least as good in both."""
    best: list[tuple[float, float]] = []
    for point in sorted(set(points)):
        if not best or point[1] < best[-1][1]:
            best.append(point)
    return best


class _LogScale:
    """Heights on a log10 axis; zero is drawn half a decade below the lowest decade."""

    def __init__(self, values: Sequence[float]) -> None:
        heights = [math.log10(value) for value in values if value >= MIN_KL]
        low, high = (min(heights), max(heights)) if heights else (-3.0, -3.0)
        self.zero = math.floor(low) - 0.5
        decades = range(math.floor(low), math.ceil(high) + 1) if heights else range(0)
        self.ticks = [self.zero, *map(float, decades)]
        self.names = ["0", *(f"{10.0**decade:g}" for decade in decades)]
        self.range = [self.zero - 0.3, max(high, self.zero + 1.0) + 0.35]

    def height(self, kl: float) -> float:
        return math.log10(kl) if kl >= MIN_KL else self.zero


def _add_ideals(figure: go.Figure, outcomes: Sequence[Outcome], scale: _LogScale) -> None:
    x: list[float | None] = []
    y: list[float | None] = []
    for outcome in outcomes:
        if outcome.method != "full":
            x += [outcome.ideal_ms, outcome.ttft_ms, None]
            y += [scale.height(outcome.answer_kl)] * 2 + [None]
    figure.add_scatter(
        x=x,
        y=y,
        showlegend=False,
        mode="lines+markers",
        line={"width": 2, "color": _FAINT},
        marker={"symbol": "line-ns-open", "size": 9, "color": TEXT_COLOUR, "opacity": [1, 0, 0] * (len(x) // 3)},
        hoverinfo="skip",
        visible=bool(x),
    )


def _add_front(figure: go.Figure, outcomes: Sequence[Outcome], scale: _LogScale) -> None:
    points = pareto_front([(outcome.ttft_ms, scale.height(outcome.answer_kl)) for outcome in outcomes])
    figure.add_scatter(
        x=[x for x, _ in points],
        y=[y for _, y in points],
        showlegend=False,
        mode="lines",
        line={"width": 1.5, "dash": "dot", "color": TEXT_COLOUR, "shape": "hv"},
        hoverinfo="skip",
        visible=len(points) > 1,
    )
