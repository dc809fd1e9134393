"""SVG figures of an inspected question: curves along one passage, and how both models rank the windows."""

from collections.abc import Iterable

import numpy as np

from engine.analysis.attention_profile import bin_starts, sum_into_bins
from ui.html import Markup, tag

_COLUMNS = 120
_HEIGHT = 100
_SIDE = 400
_MARGIN = 10
_LANES = (
    ("auxiliary", "Auxiliary", "The auxiliary model's attention from the question, reading this passage alone."),
    ("primary", "Main model", "The main model's last-layer attention from the question, in a full prefill."),
    ("recomputed", "Recomputed", "Tokens whose keys and values the chosen method recomputes."),
)


def sparklines(
    auxiliary: np.ndarray, primary: np.ndarray, recomputed: np.ndarray, peaks: tuple[float, float]
) -> Markup:
    """Return three labelled curves of one passage, in at most 120 columns.

    auxiliary, primary  [tokens] attention
    recomputed          [tokens] bool
    peaks               attention per token at full height, of the auxiliary and of the main model; higher is clipped
    """
    heights = (
        np.sqrt(_column_means(auxiliary) / peaks[0]) if peaks[0] else np.zeros(1),
        np.sqrt(_column_means(primary) / peaks[1]) if peaks[1] else np.zeros(1),
        _column_means(recomputed.astype(float)),
    )
    label = f"Along the passage: {int(recomputed.sum()):,} of {len(recomputed):,} tokens recomputed"
    lanes = (
        tag("div", tag("span", name, title=meaning), _area(height, f"kv-strip kv-strip-{key}"), class_="kv-lane")
        for (key, name, meaning), height in zip(_LANES, heights, strict=True)
    )
    return tag("div", *lanes, class_="kv-strips", role="img", aria_label=label)


def peak(values: np.ndarray, parts: list[slice]) -> float:
    """Return the 98 % quantile of the columns of all parts: the top of their common scale.

    With the maximum, one attention sink would flatten everything else.
    """
    columns = [_column_means(values[part]) for part in parts if part.stop > part.start]
    return float(np.quantile(np.concatenate(columns), 0.98)) if columns else 0.0


def _area(heights: np.ndarray, class_: str) -> Markup:
    """Return heights in [0, 1] as one filled step curve."""
    tops = (_HEIGHT - np.clip(heights, 0, 1) * _HEIGHT).round().astype(int).tolist()
    steps = "".join(f"V{top}H{column}" for column, top in enumerate(tops, start=1))
    path = tag("path", d=f"M0,{_HEIGHT}{steps}V{_HEIGHT}Z")
    view_box = f"0 0 {len(tops)} {_HEIGHT}"
    return tag("svg", path, viewBox=view_box, preserveAspectRatio="none", class_=class_, aria_hidden="true")


def _column_means(values: np.ndarray) -> np.ndarray:
    if not len(values):
        return np.zeros(1)
    return sum_into_bins(values, _COLUMNS) / np.diff([*bin_starts(len(values), _COLUMNS), len(values)])


def rank_scatter(ranks: np.ndarray, recomputed: np.ndarray, correlation: float, windows: int) -> Markup:
    """Return one dot per window; the most attended windows are at the top right, recomputed ones stand out.

    ranks        [2, dots] of the auxiliary model (x) and of the main model (y); 1 is the most attended window
    recomputed   [dots] bool
    correlation  rank correlation of all windows
    windows      number of ranked windows; a single passage has fewer dots
    """
    last = max(windows - 1, 1)
    x = (_SIDE * (1 - (ranks[0] - 1) / last)).round().astype(int).tolist()
    y = (_SIDE * (ranks[1] - 1) / last).round().astype(int).tolist()
    dots = list(zip(x, y, recomputed, strict=True))
    label = f"{len(dots):,} windows, {int(recomputed.sum()):,} of them recomputed; rank correlation {correlation:.2f}"
    return tag(
        "svg",
        tag("path", d=f"M0,{_SIDE}L{_SIDE},0", class_="kv-diagonal"),
        tag("path", d=_dots((x, y) for x, y, is_fresh in dots if not is_fresh), class_="kv-dots"),
        tag("path", d=_dots((x, y) for x, y, is_fresh in dots if is_fresh), class_="kv-dots kv-recomputed"),
        viewBox=f"{-_MARGIN} {-_MARGIN} {_SIDE + 2 * _MARGIN} {_SIDE + 2 * _MARGIN}",
        class_="kv-scatter",
        role="img",
        aria_label=label,
    )


def _dots(points: Iterable[tuple[int, int]]) -> str:
    return "".join(f"M{x},{y}h0" for x, y in dict.fromkeys(points))
