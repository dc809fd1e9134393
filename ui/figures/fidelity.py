"""A model's calibration: KL divergence from full prefill against time to first token, by recompute ratio."""

import plotly.graph_objects as go

from engine.fidelity import TARGETS, FidelityCurve
from ui.figures.base import TEXT_COLOUR, apply_style, show_durations
from ui.format import duration, nats, percent

_COLOUR = "#2f9e8f"


def fidelity_figure(curve: FidelityCurve) -> go.Figure:
    """Return one point per ratio and one for full prefill; dotted lines are the targets of CacheClip adaptive."""
    figure = go.Figure()
    figure.add_scatter(
        x=[point.ttft_ms for point in curve.points],
        y=[point.kl for point in curve.points],
        mode="lines+markers+text",
        text=[percent(point.ratio) for point in curve.points],
        textposition="top right",
        cliponaxis=False,
        line={"width": 1, "color": _COLOUR},
        marker={"size": 10, "color": _COLOUR},
        hovertext=[
            f"{percent(point.ratio)} recomputed: {duration(point.ttft_ms)}, {point.speedup:.1f}x faster<br>"
            f"KL {nats(point.kl)} nats, same token {percent(point.top1)}"
            for point in curve.points
        ],
        hoverinfo="text",
    )
    figure.add_scatter(
        x=[curve.full_ttft_ms],
        y=[0],
        mode="markers+text",
        text=["full prefill"],
        textposition="top left",
        cliponaxis=False,
        marker={"size": 13, "symbol": "star", "color": TEXT_COLOUR},
        hovertext=[f"full prefill: {duration(curve.full_ttft_ms)}"],
        hoverinfo="text",
    )
    highest = max(point.kl for point in curve.points)
    for name, kl in TARGETS.items():
        if kl <= 1.5 * highest:
            figure.add_hline(kl, line={"width": 1, "dash": "dot", "color": TEXT_COLOUR}, annotation_text=name)
    apply_style(figure, height=260, top=24)
    slowest_ms = max(curve.full_ttft_ms, *(point.ttft_ms for point in curve.points))
    show_durations(figure, "time to first token", slowest_ms)
    figure.update_yaxes(title_text="KL from full prefill, nats", rangemode="tozero", nticks=6)
    return figure
