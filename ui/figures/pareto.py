"""The trade-off between time to first token and KL divergence from full prefill, with its Pareto front."""

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from engine.analysis.comparison import Outcome
from ui.figures.base import TEXT_COLOUR, apply_style, plotly_label, show_durations
from ui.format import MIN_KL, duration, nats, percent

_COLOURS = ("#2f9e8f", "#d08a1d", "#8b7bd8", "#d0587e", "#4f8fd6", "#7f9c3a", "#b9755a", "#7c8694")
_SYMBOLS = ("circle", "square", "triangle-up", "pentagon", "hexagon", "triangle-down", "cross", "x")
_FAINT = "rgba(128,133,141,0.55)"


def pareto_figure(outcomes: Sequence[Outcome]) -> go.Figure:
    """Return one point per outcome: TTFT on the x axis, answer KL on a logarithmic y axis; lower left is best.

    A KL of zero has no logarithm and is drawn on a line below all others. A grey line leads from each point to its
    ideal TTFT. Dotted steps connect the Pareto-optimal points.
    """
    exponents = [math.log10(each.answer_kl) for each in outcomes if each.answer_kl >= MIN_KL] or [-3.0]
    decades = range(math.floor(min(exponents)), math.ceil(max(exponents)) + 1)
    zero = decades[0] - 0.5
    heights = {each.key: math.log10(each.answer_kl) if each.answer_kl >= MIN_KL else zero for each in outcomes}
    front = pareto_front([(outcome.ttft_ms, heights[outcome.key]) for outcome in outcomes])
    figure = go.Figure()
    figure.add_scatter(
        x=[x for x, _ in front],
        y=[y for _, y in front],
        showlegend=False,
        mode="lines",
        line={"width": 1.5, "dash": "dot", "color": TEXT_COLOUR, "shape": "hv"},
        hoverinfo="skip",
        visible=len(front) > 1,
    )
    for index, method in enumerate(dict.fromkeys(outcome.method for outcome in outcomes)):
        points = sorted((each for each in outcomes if each.method == method), key=lambda each: each.ratio or 0.0)
        is_full = method == "full"
        figure.add_scatter(
            x=[point.ttft_ms for point in points],
            y=[heights[point.key] for point in points],
            name=plotly_label(points[0].label),
            mode="lines+markers+text",
            text=["" if point.ratio is None else percent(point.ratio) for point in points],
            textposition="top center",
            cliponaxis=False,
            line={"width": 1, "color": _FAINT},
            marker={
                "size": 15 if is_full else 12,
                "color": TEXT_COLOUR if is_full else _COLOURS[(index - 1) % len(_COLOURS)],
                "symbol": "star" if is_full else _SYMBOLS[(index - 1) % len(_SYMBOLS)],
            },
            error_x={
                "array": [0.0] * len(points),
                "arrayminus": [point.ttft_ms - point.ideal_ms for point in points],
                "visible": not is_full,
                "color": _FAINT,
                "thickness": 2,
                "width": 4,
            },
            hovertext=[
                f"{duration(point.ttft_ms)}, {percent(point.relative_ttft)} of full prefill<br>"
                f"KL {nats(point.answer_kl)} nats<br>{percent(point.actual_ratio, 1)} recomputed<br>"
                f"ideal (FLOP bound) {duration(point.ideal_ms)}"
                for point in points
            ],
            hoverinfo="text+name",
        )
    apply_style(figure, height=380)
    figure.update_layout(
        margin={"l": 8, "r": 16, "t": 20, "b": 8},
        showlegend=True,
        legend={"orientation": "h", "yanchor": "top", "y": -0.18, "x": 0, "itemclick": False, "itemdoubleclick": False},
        hoverlabel={"namelength": -1},
    )
    slowest_ms = max((outcome.ttft_ms for outcome in outcomes), default=1.0)
    show_durations(figure, "time to first token", slowest_ms)
    figure.update_yaxes(
        title_text="KL from full prefill, nats",
        range=[zero - 0.3, max(*exponents, zero + 1.0) + 0.35],
        tickvals=[zero, *decades],
        ticktext=["0", *(f"{10.0**decade:g}" for decade in decades)],
    )
    return figure


def pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the Pareto-optimal points (ms, KL), fastest first: no other point is at least as good in both."""
    best: list[tuple[float, float]] = []
    for point in sorted(set(points)):
        if not best or point[1] < best[-1][1]:
            best.append(point)
    return best
