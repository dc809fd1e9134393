"""Figures of an inspected question: attention, agreement with the main model's last layer, and recomputed tokens.

CacheClip (arXiv:2510.10129) selects tokens by the auxiliary model's attention because it agrees with the main model's
last layer better than the main model's own first layers do.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from engine.analysis.inspection import bin_starts, passage_slices, sum_into_bins
from ui.figures.base import TEXT_COLOUR, apply_style, plotly_label
from ui.html import Markup, tag

_AUXILIARY = "#8b7bd8"
_CHOSEN = "#d08a1d"
_LAYER = "#1f978a"
_HEAT = [(0.0, "rgba(31,151,138,0)"), (0.5, "rgba(31,151,138,0.75)"), (1.0, "rgba(178,92,8,1)")]
_HEAT_BAR = {"tickvals": [0, 1, 2], "ticktext": ["1x", "10x", "100x"], "thickness": 8, "len": 0.9, "outlinewidth": 0}
_MAP_BINS = 200
_CURVE_BINS = 120
_CURVE_HEIGHT = 100
_SIDE = 400  # of the scatter plot
_LANES = (
    ("auxiliary", "Auxiliary", "The auxiliary model's attention from the question, reading this passage alone."),
    ("primary", "Main model", "The main model's last-layer attention from the question, in a full prefill."),
    ("recomputed", "Recomputed", "Tokens whose keys and values the chosen method recomputes."),
)


def attention_figure(auxiliary: np.ndarray, primary: np.ndarray, lengths: list[int], first: int = 1) -> go.Figure:
    """Return the heat map: the main model's layers [L, T] from bottom to top, the auxiliary model [T] above them.

    The colour is a bin's attention relative to the average of its row, on a logarithmic scale. `lengths` are the
    tokens of each passage shown, T in total; `first` is the number of the first of them.
    """
    layers, tokens = primary.shape
    starts = bin_starts(tokens, _MAP_BINS)
    widths = np.diff([*starts, tokens])
    rows = np.vstack([primary, auxiliary[None]])
    totals = rows.sum(axis=1, keepdims=True)
    relative = sum_into_bins(rows, _MAP_BINS) / widths * tokens / np.where(totals > 0, totals, 1)
    names = [f"layer {number}" for number in range(1, layers + 1)] + ["auxiliary"]
    figure = go.Figure(
        go.Heatmap(
            z=np.log10(np.maximum(relative, 1e-3)).round(2).tolist(),
            x=(starts + widths / 2).round(1).tolist(),
            y=names,
            text=[[f"{value:.1f}" for value in row] for row in relative.tolist()],
            zmin=0,
            zmax=2,
            colorscale=_HEAT,
            hovertemplate="%{y}, near token %{x:.0f}: %{text} times the average<extra></extra>",
            colorbar={**_HEAT_BAR, "x": 1.01},
        )
    )
    for number, passage in enumerate(passage_slices(lengths), start=first):
        if passage.start:
            figure.add_vline(x=passage.start, line={"width": 1, "color": "rgba(128,133,141,0.55)"})
        middle = (passage.start + passage.stop) / 2
        figure.add_annotation(x=middle, yref="paper", y=1, yanchor="bottom", showarrow=False, text=str(number))
    apply_style(figure, height=max(220, min(420, 90 + 11 * layers)), top=24)
    figure.update_xaxes(title_text="token of the passages", showgrid=False, range=[0, tokens], nticks=8)
    labelled = sorted({0, layers // 4, layers // 2, 3 * layers // 4, layers})
    figure.update_yaxes(showgrid=False, tickvals=[names[row] for row in labelled], tickfont={"color": TEXT_COLOUR})
    return figure


def agreement_figure(
    curves: Mapping[str, np.ndarray], labels: Mapping[str, str], chosen: str, percent: int, point: float | None
) -> go.Figure:
    """Return Jaccard similarity over the recompute ratio: auxiliary model, chosen method, other methods, chance.

    `curves` [101] are by method name and for 'auxiliary', NaN where undefined; `percent` is the slider's ratio, marked
    by a line, at which `point`, the similarity of a chosen method without a ratio, is drawn instead of a curve.
    """
    figure = go.Figure()
    ratios = np.arange(101) / 100
    _add_line(figure, ratios / (2 - ratios), "random selection", {"color": TEXT_COLOUR, "width": 1, "dash": "dot"})
    for name, curve in curves.items():
        if name not in (chosen, "auxiliary", "oracle"):
            _add_line(figure, curve, labels.get(name, name), {"color": "rgba(128,133,141,0.35)", "width": 1})
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


def sparklines(
    auxiliary: np.ndarray, primary: np.ndarray, recomputed: np.ndarray, peaks: tuple[float, float]
) -> Markup:
    """Return three labelled curves of one passage, each [tokens], in at most 120 columns.

    `peaks` are the attention per token at full height, of the auxiliary and of the main model; higher is clipped.
    """
    heights = (
        np.sqrt(_column_means(auxiliary) / (peaks[0] or np.inf)),
        np.sqrt(_column_means(primary) / (peaks[1] or np.inf)),
        _column_means(recomputed.astype(float)),
    )
    label = f"Along the passage: {int(recomputed.sum()):,} of {len(recomputed):,} tokens recomputed"
    lanes = (
        tag("div", tag("span", name, title=meaning), _area(height, f"kv-strip kv-strip-{key}"), class_="kv-lane")
        for (key, name, meaning), height in zip(_LANES, heights, strict=True)
    )
    return tag("div", *lanes, class_="kv-strips", role="img", aria_label=label)


def peak(values: np.ndarray, parts: list[slice]) -> float:
    """Return the top of the parts' common scale: their 98 % quantile, as the maximum may be a sink."""
    columns = [_column_means(values[part]) for part in parts if part.stop > part.start]
    return float(np.quantile(np.concatenate(columns), 0.98)) if columns else 0.0


def _area(heights: np.ndarray, class_: str) -> Markup:
    """Return heights in [0, 1] as one filled step curve."""
    tops = (_CURVE_HEIGHT - np.clip(heights, 0, 1) * _CURVE_HEIGHT).round().astype(int).tolist()
    steps = "".join(f"V{top}H{column}" for column, top in enumerate(tops, start=1))
    path = tag("path", d=f"M0,{_CURVE_HEIGHT}{steps}V{_CURVE_HEIGHT}Z")
    view_box = f"0 0 {len(tops)} {_CURVE_HEIGHT}"
    return tag("svg", path, viewBox=view_box, preserveAspectRatio="none", class_=class_, aria_hidden="true")


def _column_means(values: np.ndarray) -> np.ndarray:
    if not len(values):
        return np.zeros(1)
    return sum_into_bins(values, _CURVE_BINS) / np.diff([*bin_starts(len(values), _CURVE_BINS), len(values)])


def rank_scatter(ranks: np.ndarray, recomputed: np.ndarray, correlation: float, windows: int) -> Markup:
    """Return one dot per window; the most attended windows are at the top right, recomputed ones stand out.

    `ranks` [2, dots] are those of the auxiliary model (x) and of the main model (y), 1 the most attended of all
    `windows`, of which a single passage has fewer dots; `recomputed` is [dots] bool.
    """
    x, y = (ranks - 1) / max(windows - 1, 1)
    points = (_SIDE * np.stack([1 - x, y], axis=1)).round().astype(int)
    label = f"{len(points):,} windows, {int(recomputed.sum()):,} of them recomputed; rank correlation {correlation:.2f}"
    return tag(
        "svg",
        tag("path", d=f"M0,{_SIDE}L{_SIDE},0", class_="kv-diagonal"),
        tag("path", d=_dots(points[~recomputed]), class_="kv-dots"),
        tag("path", d=_dots(points[recomputed]), class_="kv-dots kv-recomputed"),
        viewBox=f"-10 -10 {_SIDE + 20} {_SIDE + 20}",
        class_="kv-scatter",
        role="img",
        aria_label=label,
    )


def _dots(points: np.ndarray) -> str:
    return "".join(f"M{x},{y}h0" for x, y in np.unique(points, axis=0).tolist())
