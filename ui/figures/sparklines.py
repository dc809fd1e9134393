"""Attention and recomputed tokens along one passage, as three small SVG curves of at most 120 columns."""

import numpy as np

from engine.analysis.attention_profile import bin_starts, sum_into_bins
from ui.html import Markup, tag

_COLUMNS = 120
_HEIGHT = 100
_LANES = (
    ("auxiliary", "Auxiliary", "The auxiliary model's attention from the question, reading this passage alone."),
    ("primary", "Main model", "The main model's last-layer attention from the question, in a full prefill."),
    ("recomputed", "Recomputed", "Tokens whose keys and values the chosen method recomputes."),
)


def sparklines(
    auxiliary: np.ndarray, primary: np.ndarray, recomputed: np.ndarray, peaks: tuple[float, float]
) -> Markup:
    """Return the three curves of one passage, each with its label.

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
        tag("div", tag("span", name, title=meaning), area(height, f"kv-strip kv-strip-{key}"), class_="kv-lane")
        for (key, name, meaning), height in zip(_LANES, heights, strict=True)
    )
    return tag("div", *lanes, class_="kv-strips", role="img", aria_label=label)


def peak(values: np.ndarray, parts: list[slice]) -> float:
    """Return the 98 % quantile of the columns of all parts: the top of their common scale.

    With the maximum, one attention sink would flatten everything else.
    """
    columns = [_column_means(values[part]) for part in parts if part.stop > part.start]
    return float(np.quantile(np.concatenate(columns), 0.98)) if columns else 0.0


def area(heights: np.ndarray, class_: str) -> Markup:
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
