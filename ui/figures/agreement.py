"""Agreement with the main model's last layer: of each method over the recompute ratio, and of each layer.

CacheClip (arXiv:2510.10129) selects tokens by the auxiliary model's attention because it agrees with the main model's
last layer better than the main model's own first layers do.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from ui.figures.base import TEXT_COLOUR, apply_style, plotly_label

_AUXILIARY = "#8b7bd8"
_CHOSEN = "#d08a1d"
_LAYER = "#1f978a"
_OTHERS = "rgba(128,133,141,0.35)"


def agreement_figure(
    curves: Mapping[str, np.ndarray], labels: Mapping[str, str], chosen: str, percent: int, point: float | None
) -> go.Figure:
    """Return Jaccard similarity over the recompute ratio: auxiliary model, chosen method, other methods, chance.

    curves   [101], by method name and for 'auxiliary'; NaN where undefined
    percent  current ratio of the slider, marked by a line
    point    the Jaccard similarity of a chosen method without a ratio, drawn at `percent`; else None
    """
    figure = go.Figure()
    ratios = np.arange(101) / 100
    _add_line(figure, ratios / (2 - ratios), "random selection", {"color": TEXT_COLOUR, "width": 1, "dash": "dot"})
    for name, curve in curves.items():
        if name not in (chosen, "auxiliary", "oracle"):
            _add_line(figure, curve, labels.get(name, name), {"color": _OTHERS, "width": 1})
    _add_line(figure, curves["auxiliary"], "auxiliary model", {"color": _AUXILIARY, "width": 2.5})
    if chosen in curves:
        _add_line(figure, curves[chosen], labels.get(chosen, chosen), {"color": _CHOSEN, "width": 2.5})
        figure.add_vline(x=percent, line={"dash": "dot", "width": 1.5, "color": TEXT_COLOUR})
    elif point is not None:
        figure.add_scatter(x=[percent], y=[point], mode="markers", marker={"color": _CHOSEN, "size": 10})
    apply_style(figure, height=300)
    figure.update_xaxes(title_text="selected tokens, %", range=[0, 100], dtick=20)
    figure.update_yaxes(range=[0, 1.03], dtick=0.25)
    return figure


def layer_kl_figure(kl_layers: Sequence[float], kl_auxiliary: float) -> go.Figure:
    """Return each layer's KL divergence from the main model's last layer, in nats; dashed: the auxiliary model's."""
    figure = go.Figure(
        go.Bar(
            x=list(range(1, len(kl_layers) + 1)),
            y=[round(value, 3) for value in kl_layers],
            marker={"color": _LAYER, "cornerradius": 2},
            hovertemplate="layer %{x}: %{y:.2f} nats<extra></extra>",
        )
    )
    figure.add_hline(y=kl_auxiliary, line={"dash": "dash", "width": 3, "color": _AUXILIARY})
    apply_style(figure, height=300)
    figure.update_layout(bargap=0.25)
    figure.update_xaxes(title_text="layer of the main model", showgrid=False, nticks=7)
    figure.update_yaxes(title_text="nats", title_standoff=4, nticks=5, rangemode="tozero")
    return figure


def _add_line(figure: go.Figure, curve: np.ndarray, name: str, line: dict[str, object]) -> None:
    figure.add_scatter(
        x=list(range(len(curve))),
        y=curve.astype(float).round(3).tolist(),
        mode="lines",
        line=line,
        name=name,
        hovertemplate=f"{plotly_label(name)}, %{{x}} %: %{{y:.2f}}<extra></extra>",
    )
