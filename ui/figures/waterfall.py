"""The stages of a request up to its first token, as a bar chart with one row per stage; overlap in time is visible."""

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from engine.trace import Stage
from ui.figures.base import TEXT_COLOUR, apply_style, show_durations
from ui.format import duration

# One colour per kind of work, readable on white and on near-black; matched by substring of the stage name.
_COLOURS = {
    "#2f9e8f": ("lookup", "load", "assemble"),
    "#8b7bd8": ("score", "auxiliary", "select", "question"),  # 'question': its own pass that selects tokens
    "#d08a1d": ("recompute", "prefill"),
}
_OTHER = "#7c8694"
_ROW_PX = 30
_MARGINS_PX = 74
_MIN_ROW_MS = 0.5  # a shorter stage has no row: it is no visible part of the time


def waterfall_figure(stages: Iterable[Stage], ttft_ms: float | None, full_ms: float | None = None) -> go.Figure:
    """Return the stages before the first token, in start order, and a dotted line at the first token.

    A stage is included if its midpoint is before the first token, so decoding is not. Without a TTFT, all stages are
    drawn. Stages of less than half a millisecond in total are left out. Stages with the same name share a row, labelled
    with the sum of their durations. `full_ms`, the measured TTFT of full prefill for the same question, is drawn as a
    grey bar.
    """
    shown = sorted(
        (stage for stage in stages if ttft_ms is None or stage.start_ms + stage.length_ms / 2 < ttft_ms),
        key=lambda stage: stage.start_ms,
    )
    totals_ms = _totals_ms(shown)
    shown = [stage for stage in shown if totals_ms[stage.name] >= _MIN_ROW_MS]
    rows = len({stage.name for stage in shown})
    ends_ms = [stage.start_ms + stage.length_ms for stage in shown]
    bars = {"orientation": "h", "textposition": "outside", "cliponaxis": False}
    figure = go.Figure()
    figure.add_bar(
        y=[stage.name.replace("_", " ").capitalize() for stage in shown],
        base=[stage.start_ms for stage in shown],
        x=[stage.length_ms for stage in shown],
        text=_bar_labels(shown),
        marker={"color": [_colour(stage.name) for stage in shown], "cornerradius": 3},
        hovertext=[f"{duration(stage.length_ms)}, starts at {duration(stage.start_ms)}" for stage in shown],
        hoverinfo="y+text",
        **bars,
    )
    if full_ms is not None and full_ms != ttft_ms:
        rows += 1
        ends_ms.append(full_ms)
        figure.add_bar(
            y=["Full prefill"],
            x=[full_ms],
            text=[duration(full_ms)],
            marker={"color": "rgba(128,133,141,0.12)", "line": {"color": _OTHER, "width": 1}, "cornerradius": 3},
            hovertext=[f"the same question with full prefill: {duration(full_ms)}"],
            hoverinfo="text",
            **bars,
        )
    if ttft_ms is not None:
        figure.add_vline(
            x=ttft_ms,
            line={"dash": "dot", "width": 1.5, "color": TEXT_COLOUR},
            annotation={"text": f"first token {duration(ttft_ms)}", "xanchor": "right"},
            annotation_position="top",
        )
    apply_style(figure, height=_MARGINS_PX + _ROW_PX * max(rows, 1), top=26)
    figure.update_layout(bargap=0.42, barmode="overlay")
    figure.update_yaxes(autorange="reversed", showgrid=False, ticksuffix="  ")
    # 1.34 leaves space for the label of the longest bar
    show_durations(figure, "time since the question arrived", max([ttft_ms or 1.0, *ends_ms]), scale=1.34)
    return figure


def _colour(name: str) -> str:
    return next((colour for colour, keys in _COLOURS.items() if any(key in name.lower() for key in keys)), _OTHER)


def _totals_ms(stages: Iterable[Stage]) -> dict[str, float]:
    totals_ms: dict[str, float] = {}
    for stage in stages:
        totals_ms[stage.name] = totals_ms.get(stage.name, 0.0) + stage.length_ms
    return totals_ms


def _bar_labels(stages: Sequence[Stage]) -> list[str]:
    """Return the summed duration for the last bar of each row, and '' for the bars before it."""
    totals_ms = _totals_ms(stages)
    last = {stage.name: index for index, stage in enumerate(stages)}
    return [duration(totals_ms[stage.name]) if last[stage.name] == index else "" for index, stage in enumerate(stages)]
