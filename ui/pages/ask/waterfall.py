"""The stages of a request up to its first token, one row per stage on one axis of time; overlap is visible.

Markup instead of a plotly figure: that would load a second's worth of scripts just when an answer appears.
"""

from collections.abc import Iterable, Sequence

from engine.trace import Stage
from ui.format import duration
from ui.html import Markup, join, tag

_KINDS = {  # classes of bars, matched by substring of the stage name
    "load": ("lookup", "load", "assemble"),
    "select": ("score", "auxiliary", "select", "question"),  # 'question': its own pass that selects tokens
    "compute": ("recompute", "prefill"),
}
_MIN_ROW_MS = 0.5  # a shorter stage has no row: it is no visible part of the time
_AXIS = 72  # percent of the row; the rest is for the label of the longest bar


def render_waterfall(stages: Iterable[Stage], ttft_ms: float | None, full_ms: float | None = None) -> Markup:
    """Return the stages before the first token, in start order, and a dotted line at the first token.

    A stage is included if its midpoint is before the first token, so decoding is not. Without a TTFT, all stages are
    drawn. Stages of less than half a millisecond in total are left out. Stages with the same name share a row, labelled
    with the sum of their durations. `full_ms`, the measured TTFT of full prefill for the same question, is a grey bar.
    """
    rows: dict[str, list[Stage]] = {}
    for stage in sorted(stages, key=lambda stage: stage.start_ms):
        if ttft_ms is None or stage.start_ms + stage.length_ms / 2 < ttft_ms:
            rows.setdefault(stage.name, []).append(stage)
    rows = {name: row for name, row in rows.items() if _total_ms(row) >= _MIN_ROW_MS}
    if not rows:
        return Markup("")
    if full_ms == ttft_ms:  # this was full prefill
        full_ms = None
    ends_ms = [stage.start_ms + stage.length_ms for row in rows.values() for stage in row]
    longest_ms = max(ttft_ms or 1.0, full_ms or 0.0, *ends_ms)
    items = [_row(_label(name), _kind(name), row, longest_ms) for name, row in rows.items()]
    if full_ms is not None:
        items.append(_row("Full prefill", "full", [Stage("full", 0.0, full_ms)], longest_ms))
    line = caption = None
    if ttft_ms is not None:
        line = tag("div", tag("i", style=f"left: {_share(ttft_ms, longest_ms)}%"), class_="kv-first-token")
        caption = f"First token after {duration(ttft_ms)}: the dotted line."
    chart = tag("ul", *items)
    return tag("figure", chart, line, tag("figcaption", caption) if caption else None, class_="kv-waterfall")


def _row(label: str, kind: str, stages: Sequence[Stage], longest_ms: float) -> Markup:
    """Return a row with a bar for each stage, and the sum of their durations after the last."""
    bars = [
        tag(
            "i",
            class_=f"kv-stage kv-stage-{kind}",
            style=f"left: {_share(stage.start_ms, longest_ms)}%; width: {_share(stage.length_ms, longest_ms)}%",
            title=f"{label}: {duration(stage.length_ms)}, starts at {duration(stage.start_ms)}",
        )
        for stage in stages
    ]
    end = _share(max(stage.start_ms + stage.length_ms for stage in stages), longest_ms)
    total = tag("small", duration(_total_ms(stages)), style=f"left: {end}%")
    return tag("li", tag("span", label), tag("div", join(*bars), total))


def _share(ms: float, longest_ms: float) -> float:
    """Return a time as a part of the row, in percent."""
    return round(_AXIS * ms / longest_ms, 2)


def _total_ms(stages: Iterable[Stage]) -> float:
    return sum(stage.length_ms for stage in stages)


def _label(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _kind(name: str) -> str:
    return next((kind for kind, keys in _KINDS.items() if any(key in name.lower() for key in keys)), "other")
