"""The stages of a request up to its first token, as a bar chart with one row per stage; overlap in time is visible."""

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from engine.trace import Stage
from ui.figures.base import TEXT_COLOUR, apply_style
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


def waterfall_figure(stages: Iterable[Stage], ttft_ms: float | None, full_ms: float | None = None) -> go.Figure:
    """Return the stages before the first token, in start order, and a dotted line at the first token.

    A stage is included if its midpoint is before the first token, so decoding is not. Without a TTFT, all stages are
    drawn. Stages with the same name share a row, labelled with the sum of their durations. `full_ms`, the measured TTFT
    of full prefill for the same question, is drawn as a grey bar.
    """
    shown = sorted(
        (stage for stage in stages if ttft_ms is None or stage.start_ms + stage.length_ms / 2 < ttft_ms),
        key=lambda stage: stage.start_ms,
    )
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
        hovertemplate="%{y}: %{x:.1f} ms, starts at %{base:.1f} ms<extra></extra>",
        **bars,
    )
    if full_ms is not None and full_ms != ttft_ms:
        rows += 1
        ends_ms.append(full_ms)
        figure.add_bar(
            y=["Full prefill"],
            x=[full_ms],
            text=[_format(full_ms)],
            marker={"color": "rgba(128,133,141,0.12)", "line": {"color": _OTHER, "width": 1}, "cornerradius": 3},
            hovertemplate="the same question with full prefill: %{x:.1f} ms<extra></extra>",
            **bars,
        )
    if ttft_ms is not None:
        figure.add_vline(
            x=ttft_ms,
            line={"dash": "dot", "width": 1.5, "color": TEXT_COLOUR},
            annotation={"text": f"first token {_format(ttft_ms)}", "xanchor": "right"},
            annotation_position="top",
        )
    apply_style(figure, height=_MARGINS_PX + _ROW_PX * max(rows, 1), top=26)
    figure.update_layout(bargap=0.42, barmode="overlay")
    figure.update_yaxes(autorange="reversed", showgrid=False, ticksuffix="  ")
    figure.update_xaxes(
        title_text="ms since the question arrived",
        range=[0, 1.34 * max([ttft_ms or 1.0, *ends_ms])],  # leaves space for the label of the longest bar
        nticks=6,
    )
    return figure


def _colour(name: str) -> str:
    return next((colour for colour, keys in _COLOURS.items() if any(key in name.lower() for key in keys)), _OTHER)


def _format(ms: float) -> str:
    return f"{ms:.1f}\u00a0ms" if ms < 10 else duration(ms)


def _bar_labels(stages: Sequence[Stage]) -> list[str]:
    """Return the summed duration for the last bar of each row, and '' for the bars before it."""
    totals_ms: dict[str, float] = {}
    last: dict[str, int] = {}
    for index, stage in enumerate(stages):
        totals_ms[stage.name] = totals_ms.get(stage.name, 0.0) + stage.length_ms
        last[stage.name] = index
    return [_format(totals_ms[stage.name]) if last[stage.name] == index else "" for index, stage in enumerate(stages)]
