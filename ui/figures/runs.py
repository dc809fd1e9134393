"""All runs of a question: time to first token against the KL divergence that the model's calibration expects."""

from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from engine.request import RatioPreview
from ui.figures.base import TEXT_COLOUR, apply_style, plotly_label

_COLOUR = "#2f9e8f"
_LAST = "#d08a1d"


class Run(NamedTuple):
    """One answer to the question."""

    name: str
    ttft_ms: float
    expected_kl: float


def runs_figure(runs: Sequence[Run], previews: Sequence[tuple[float, RatioPreview | None]]) -> go.Figure | None:
    """Return one point per run, the last highlighted, and a line of the predictions by ratio; None without any to show.

    `previews` are those of the last answer by ratio. A prediction needs both a time and a KL divergence.
    """
    line = [
        (ratio, preview.ttft_ms, preview.expected_kl)
        for ratio, preview in previews
        if preview and preview.ttft_ms is not None and preview.expected_kl is not None
    ]
    if not runs or not any(kl for _, _, kl in line):  # nothing known, or everything exact
        return None
    figure = go.Figure()
    figure.add_scatter(
        x=[ms for _, ms, _ in line],
        y=[kl for _, _, kl in line],
        mode="lines+markers+text",
        text=[f"{100 * ratio:g} %" for ratio, _, _ in line],
        textposition="top right",
        cliponaxis=False,
        line={"width": 1, "dash": "dot", "color": TEXT_COLOUR},
        marker={"size": 5, "color": TEXT_COLOUR},
        hovertemplate="predicted for %{text}: %{x:,.0f} ms, KL %{y:.2g} nats<extra></extra>",
    )
    figure.add_scatter(
        x=[run.ttft_ms for run in runs],
        y=[run.expected_kl for run in runs],
        mode="markers",
        cliponaxis=False,
        marker={"size": 11, "color": [*[_COLOUR] * (len(runs) - 1), _LAST]},
        text=[plotly_label(run.name) for run in runs],
        hovertemplate="%{text}: %{x:,.0f} ms, KL %{y:.2g} nats<extra></extra>",
    )
    apply_style(figure, height=220, top=24)
    slowest_ms = max(*(ms for _, ms, _ in line), *(run.ttft_ms for run in runs))
    figure.update_xaxes(title_text="time to first token, ms", range=[0, 1.12 * slowest_ms], nticks=6, tickformat=",")
    figure.update_yaxes(title_text="expected KL, nats", rangemode="tozero", nticks=5)
    return figure
