"""The question's attention to the passages as a heat map of layers and bins of adjacent tokens."""

import numpy as np
import plotly.graph_objects as go

from engine.analysis.attention_profile import bin_starts, passage_slices, sum_into_bins
from ui.figures.base import TEXT_COLOUR, apply_style

_MAX_BINS = 200
_MAX_LOG10 = 2.0  # powers of ten above the average that get the strongest colour
_SCALE = [(0.0, "rgba(31,151,138,0)"), (0.5, "rgba(31,151,138,0.75)"), (1.0, "rgba(178,92,8,1)")]
_LINE = "rgba(128,133,141,0.55)"


def attention_figure(auxiliary: np.ndarray, primary: np.ndarray, lengths: list[int], first: int = 1) -> go.Figure:
    """Return the heat map: the main model's layers from bottom to top, the auxiliary model above them.

    The colour is a bin's attention relative to the average of its row, on a logarithmic scale.

    auxiliary  [T] attention over the tokens shown
    primary    [L, T]
    lengths    tokens of each passage shown; their sum is T
    first      number of the first passage shown
    """
    layers, tokens = primary.shape
    starts = bin_starts(tokens, _MAX_BINS)
    widths = np.diff([*starts, tokens])
    rows = np.vstack([primary, auxiliary[None]])
    totals = rows.sum(axis=1, keepdims=True)
    relative = sum_into_bins(rows, _MAX_BINS) / widths * tokens / np.where(totals > 0, totals, 1)
    names = [f"layer {number}" for number in range(1, layers + 1)] + ["auxiliary"]
    figure = go.Figure(
        go.Heatmap(
            z=np.log10(np.maximum(relative, 1e-3)).round(2).tolist(),
            x=(starts + widths / 2).round(1).tolist(),
            y=names,
            text=[[f"{value:.1f}" for value in row] for row in relative.tolist()],
            zmin=0,
            zmax=_MAX_LOG10,
            colorscale=_SCALE,
            hovertemplate="%{y}, near token %{x:.0f}: %{text} times the average<extra></extra>",
            colorbar={
                "tickvals": [0, 1, 2],
                "ticktext": ["1x", "10x", "100x"],
                "thickness": 8,
                "outlinewidth": 0,
                "len": 0.9,
                "x": 1.01,
            },
        )
    )
    for number, passage in enumerate(passage_slices(lengths), start=first):
        if passage.start:
            figure.add_vline(x=passage.start, line={"width": 1, "color": _LINE})
        middle = (passage.start + passage.stop) / 2
        figure.add_annotation(x=middle, yref="paper", y=1, yanchor="bottom", showarrow=False, text=str(number))
    apply_style(figure, height=max(220, min(420, 90 + 11 * layers)), top=24)
    figure.update_xaxes(title_text="token of the passages", showgrid=False, range=[0, tokens], nticks=8)
    labelled = sorted({0, layers // 4, layers // 2, 3 * layers // 4, layers})
    figure.update_yaxes(showgrid=False, tickvals=[names[row] for row in labelled], tickfont={"color": TEXT_COLOUR})
    return figure
