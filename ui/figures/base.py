"""The common style of all plotly figures: transparent, not zoomable, readable in both themes."""

import html

import plotly.graph_objects as go

from ui.format import duration_ticks, short
from ui.html import printable

TEXT_COLOUR = "#80858d"  # base.css overrides it with the theme's colour
_GRID_COLOUR = "rgba(128,133,141,0.22)"


def apply_style(figure: go.Figure, height: int, top: int = 8) -> None:
    """Style a figure in place; `height` and the `top` margin are in pixels."""
    figure.update_layout(
        height=height,
        margin={"l": 4, "r": 8, "t": top, "b": 40},
        showlegend=False,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12, "color": TEXT_COLOUR},
        dragmode=False,
    )
    for update_axes in (figure.update_xaxes, figure.update_yaxes):
        update_axes(gridcolor=_GRID_COLOUR, zeroline=False, fixedrange=True, automargin=True, ticks="")
        update_axes(title_font_size=12, title_standoff=8)


def show_durations(figure: go.Figure, title: str, max_ms: float, scale: float = 1.1) -> None:
    """Make the x axis one of times from 0 to `scale * max_ms`, with readable units."""
    values, labels = duration_ticks(max_ms)
    figure.update_xaxes(title_text=title, range=[0, scale * max_ms], tickvals=values, ticktext=labels)


def plotly_label(value: object, max_chars: int = 48) -> str:
    """Return data as one line of literal text: plotly would render some tags and $math$ in labels and hover texts."""
    return html.escape(short(printable(value), max_chars), quote=False).replace("$", "&#36;")
