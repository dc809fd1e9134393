"""What the figures share: no paper of their own, quiet lines, and text that both themes can show."""

import plotly.graph_objects as go

TEXT = "#80858d"  # the page's style sheet puts the theme's own colour over it
GRID = "rgba(128,133,141,0.22)"


def plain(figure: go.Figure, height: int, top: int = 8) -> None:
    """Make a figure look like the page: transparent, without zooming, its margins as small as its labels allow."""
    figure.update_layout(
        height=height,
        margin={"l": 4, "r": 8, "t": top, "b": 40},
        showlegend=False,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12, "color": TEXT},
        dragmode=False,
    )
    for axes in (figure.update_xaxes, figure.update_yaxes):
        axes(gridcolor=GRID, zeroline=False, fixedrange=True, automargin=True, ticks="")
