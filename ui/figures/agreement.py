"""How near the small model, a method and each layer come to what the primary's last layer looks at."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from ui.figures.base import TEXT, plain
from ui.figures.labels import label

AUXILIARY, CHOSEN, LAYER = "#8b7bd8", "#d08a1d", "#1f978a"
_OTHERS = "rgba(128,133,141,0.35)"


def agreement(
    curves: Mapping[str, np.ndarray], labels: Mapping[str, str], chosen: str, percent: int, point: float | None
) -> go.Figure:
    """Return Jaccard over the recompute ratio: the small model, the chosen method, all others faintly, and chance.

    curves   [101] by method and for 'auxiliary'; NaN where there is nothing to compare
    labels   of the methods
    percent  the ratio that the slider stands at, marked by a line
    point    the Jaccard of a chosen method that has no ratio, drawn at `percent`; None where there is none
    """
    figure = go.Figure()
    chance = [round(share / (2 - share), 3) for share in (percent / 100 for percent in range(101))]
    _line(figure, chance, "drawn at random", {"color": TEXT, "width": 1, "dash": "dot"})
    for name, curve in curves.items():
        if name not in (chosen, "auxiliary", "oracle"):
            _line(figure, _numbers(curve), labels.get(name, name), {"color": _OTHERS, "width": 1})
    _line(figure, _numbers(curves["auxiliary"]), "small model", {"color": AUXILIARY, "width": 2.5})
    if chosen in curves:
        _line(figure, _numbers(curves[chosen]), labels.get(chosen, chosen), {"color": CHOSEN, "width": 2.5})
        figure.add_vline(x=percent, line={"dash": "dot", "width": 1.5, "color": TEXT})
    elif point is not None:
        figure.add_scatter(x=[percent], y=[point], mode="markers", marker={"color": CHOSEN, "size": 10})
    plain(figure, height=300)
    figure.update_xaxes(title={"text": "tokens chosen, %", "standoff": 8}, range=[0, 100], dtick=20)
    figure.update_yaxes(range=[0, 1.03], dtick=0.25)
    return figure


def distance(kl_layers: Sequence[float], kl_auxiliary: float) -> go.Figure:
    """Return KL to the primary's last layer in nats: a bar a layer, a dashed line for the small model."""
    figure = go.Figure(
        go.Bar(
            x=list(range(1, len(kl_layers) + 1)),
            y=[round(value, 3) for value in kl_layers],
            marker={"color": LAYER, "cornerradius": 2},
            hovertemplate="layer %{x}: %{y:.2f} nats<extra></extra>",
        )
    )
    figure.add_hline(y=kl_auxiliary, line={"dash": "dash", "width": 3, "color": AUXILIARY})
    plain(figure, height=300)
    figure.update_layout(bargap=0.25)
    figure.update_xaxes(title={"text": "layer of the main model", "standoff": 8}, showgrid=False, nticks=7)
    figure.update_yaxes(title={"text": "nats", "standoff": 4}, nticks=5, rangemode="tozero")
    return figure


def _line(figure: go.Figure, values: Sequence[float | None], name: str, line: dict[str, object]) -> None:
    figure.add_scatter(
        x=list(range(len(values))),
        y=values,
        mode="lines",
        line=line,
        name=name,
        hovertemplate=f"{label(name)}, %{{x}} %: %{{y:.2f}}<extra></extra>",
    )


def _numbers(curve: np.ndarray) -> list[float | None]:
    return [None if math.isnan(value) else round(float(value), 3) for value in curve]
