"""Where the time to first token went: a row per stage, so that overlap looks like overlap."""

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from engine.trace import Stage
from ui.format import duration

# One hue per kind of work, readable on white and on near-black; everything else is grey.
_HUES = {
    "search": "#7c8694",
    "rerank": "#7c8694",
    "lookup": "#2f9e8f",
    "load": "#2f9e8f",
    "assemble": "#2f9e8f",
    "score": "#8b7bd8",
    "auxiliary": "#8b7bd8",
    "select": "#8b7bd8",
    "question": "#8b7bd8",  # looks at the cached passages, to select
    "recompute": "#d08a1d",
    "prefill": "#d08a1d",
}
_OTHER = "#7c8694"
_TEXT = "#80858d"  # the page's style sheet puts the theme's own colour over it
_GHOST = "Full prefill"
_ROW_PX, _AROUND_PX = 30, 74


def waterfall(stages: Iterable[Stage], ttft_ms: float | None, full_ms: float | None = None) -> go.Figure:
    """Return the stages that led to the first token, in the order they began, and a dotted line at it.

    A stage led to it if its middle lies before it, so decoding is left out. Stages of one name share a row. Without a
    first token yet, all stages are drawn and no line. A row with several bars has one label, with their sum.

    full_ms  what the same question took with full prefill, drawn as a ghost; None where that was not measured
    """
    shown = sorted(
        (stage for stage in stages if ttft_ms is None or stage.start_ms + stage.length_ms / 2 < ttft_ms),
        key=lambda stage: stage.start_ms,
    )
    ghost = full_ms if full_ms is not None and full_ms != ttft_ms else None
    end = max([ttft_ms or 1.0, ghost or 0.0, *(stage.start_ms + stage.length_ms for stage in shown)])
    figure = go.Figure(
        go.Bar(
            orientation="h",
            y=[_label(stage.name) for stage in shown],
            base=[stage.start_ms for stage in shown],
            x=[stage.length_ms for stage in shown],
            text=_labels(shown),
            textposition="outside",
            cliponaxis=False,
            marker={"color": [_hue(stage.name) for stage in shown], "cornerradius": 3},
            hovertemplate="%{y}: %{x:.1f} ms from %{base:.1f} ms<extra></extra>",
        )
    )
    if ghost is not None:
        figure.add_bar(
            orientation="h",
            y=[_GHOST],
            x=[ghost],
            text=[_milliseconds(ghost)],
            textposition="outside",
            cliponaxis=False,
            marker={"color": "rgba(128,133,141,0.12)", "line": {"color": _OTHER, "width": 1}, "cornerradius": 3},
            hovertemplate="the same question, every token computed: %{x:.1f} ms<extra></extra>",
        )
    if ttft_ms is not None:
        figure.add_vline(x=ttft_ms, line={"dash": "dot", "width": 1.5, "color": _TEXT})
        figure.add_annotation(
            x=ttft_ms,
            yref="paper",
            y=1,
            yanchor="bottom",
            xanchor="right",
            showarrow=False,
            text=f"first token {_milliseconds(ttft_ms)}",
        )
    rows = len({stage.name for stage in shown}) + (ghost is not None)
    figure.update_layout(
        height=_AROUND_PX + _ROW_PX * max(rows, 1),
        margin={"l": 4, "r": 4, "t": 26, "b": 40},
        bargap=0.42,
        barmode="overlay",
        showlegend=False,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12, "color": _TEXT},
        dragmode=False,
    )
    figure.update_yaxes(
        autorange="reversed", automargin=True, showgrid=False, ticks="", ticksuffix="  ", fixedrange=True
    )
    figure.update_xaxes(
        title={"text": "ms since the question arrived", "standoff": 8, "font": {"size": 12}},
        range=[0, end * 1.34],  # room for the label behind the longest bar
        gridcolor="rgba(128,133,141,0.22)",
        zeroline=False,
        fixedrange=True,
        nticks=6,
    )
    return figure


def _label(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _hue(name: str) -> str:
    return next((hue for key, hue in _HUES.items() if key in name.lower()), _OTHER)


def _milliseconds(value: float) -> str:
    return f"{value:.1f}\u00a0ms" if value < 10 else duration(value)


def _labels(stages: Sequence[Stage]) -> list[str]:
    """Return a label for the last bar of each row, and nothing for the bars before it."""
    total: dict[str, float] = {}
    labels = [""] * len(stages)
    last = {stage.name: number for number, stage in enumerate(stages)}
    for number, stage in enumerate(stages):
        total[stage.name] = total.get(stage.name, 0.0) + stage.length_ms
        if last[stage.name] == number:
            labels[number] = _milliseconds(total[stage.name])
    return labels
