"""All runs of a question: time to first token against the KL divergence that the model's calibration expects."""

from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from engine.request import RatioPreview
from ui.figures.base import TEXT_COLOUR, apply_style, plotly_label, show_durations
from ui.format import duration, nats, percent

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
        text=[percent(ratio) for ratio, _, _ in line],
        textposition="top right",
        cliponaxis=False,
        line={"width": 1, "dash": "dot", "color": TEXT_COLOUR},
        marker={"size": 5, "color": TEXT_COLOUR},
        hovertext=[f"predicted for {percent(ratio)}: {duration(ms)}, KL {nats(kl)} nats" for ratio, ms, kl in line],
        hoverinfo="text",
    )
    figure.add_scatter(
        x=[run.ttft_ms for run in runs],
        y=[run.expected_kl for run in runs],
        mode="markers",
        cliponaxis=False,
        marker={"size": 11, "color": [*[_COLOUR] * (len(runs) - 1), _LAST]},
        hovertext=[
            f"{plotly_label(run.name)}: {duration(run.ttft_ms)}, KL {nats(run.expected_kl)} nats" for run in runs
        ],
        hoverinfo="text",
    )
    apply_style(figure, height=220, top=24)
    slowest_ms = max(*(ms for _, ms, _ in line), *(run.ttft_ms for run in runs))
    show_durations(figure, "time to first token", slowest_ms, scale=1.12)
    figure.update_yaxes(title_text="expected KL, nats", rangemode="tozero", nticks=5)
    return figure
