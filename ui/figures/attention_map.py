"""Where the question looks, layer by layer: a heat map of layers and bins of neighbouring tokens."""

import numpy as np
import plotly.graph_objects as go

from engine.analysis.attention_profile import binned, edges, parts
from ui.figures.base import TEXT, plain

BINS = 200
_SCALE = [(0.0, "rgba(31,151,138,0)"), (0.5, "rgba(31,151,138,0.75)"), (1.0, "rgba(178,92,8,1)")]
_MOST = 2.0  # powers of ten above the average that have the strongest colour
_LINE = "rgba(128,133,141,0.55)"


def attention_map(auxiliary: np.ndarray, primary: np.ndarray, lengths: list[int], first: int = 1) -> go.Figure:
    """Return the map: the primary's layers from the first (below) to the last, the auxiliary on top.

    auxiliary  [T] attention over the tokens shown
    primary    [L, T]
    lengths    tokens of each passage shown: T in sum
    first      number of the first passage shown

    A colour says how many times the average of its row a bin gets, on a logarithmic scale.
    """
    tokens, layers = primary.shape[1], len(primary)
    starts = edges(tokens, BINS)
    widths = np.diff([*starts, tokens])
    rows = np.vstack([primary, auxiliary[None]])
    shares = rows.sum(axis=1, keepdims=True)
    times = binned(rows, BINS) / widths * tokens / np.where(shares > 0, shares, 1)
    names = [f"layer {number}" for number in range(1, layers + 1)] + ["small model"]
    figure = go.Figure(
        go.Heatmap(
            z=np.log10(np.maximum(times, 1e-3)).round(2).tolist(),
            x=(starts + widths / 2).round(1).tolist(),
            y=names,
            text=[[f"{value:.1f}" for value in row] for row in times.tolist()],
            zmin=0,
            zmax=_MOST,
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
    for number, part in enumerate(parts(lengths), start=first):
        if part.start:
            figure.add_vline(x=part.start, line={"width": 1, "color": _LINE})
        middle = (part.start + part.stop) / 2
        figure.add_annotation(x=middle, yref="paper", y=1, yanchor="bottom", showarrow=False, text=str(number))
    plain(figure, height=max(220, min(420, 90 + 11 * layers)), top=24)
    figure.update_xaxes(title={"text": "token of the passages"}, showgrid=False, range=[0, tokens], nticks=8)
    shown = sorted({0, layers // 4, layers // 2, 3 * layers // 4, layers})
    figure.update_yaxes(showgrid=False, tickvals=[names[place] for place in shown], tickfont={"color": TEXT})
    return figure
