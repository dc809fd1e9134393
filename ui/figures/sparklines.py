"""One passage from its first token to its last, as three thin curves: SVG, one path a curve however long it is."""

import numpy as np

from engine.analysis.attention_profile import binned, edges
from ui.html import Markup, tag

COLUMNS = 120
HEIGHT = 100

_LANES = (
    ("auxiliary", "Small model", "What the auxiliary model looks at for this question, reading this passage alone."),
    ("primary", "Main model", "What the primary model's last layer looks at when it reads all passages in full."),
    ("recomputed", "Recomputed", "Where the chosen method computes keys and values anew."),
)


def strips(auxiliary: np.ndarray, primary: np.ndarray, recomputed: np.ndarray, most: tuple[float, float]) -> Markup:
    """Return the three curves of one passage under each other, each named.

    auxiliary, primary  [tokens] attention
    recomputed          [tokens] bool
    most                attention per token that reaches the top of the first curve, and of the second; more is cut off
    """
    heights = (
        np.sqrt(_means(auxiliary) / most[0]) if most[0] else np.zeros(1),
        np.sqrt(_means(primary) / most[1]) if most[1] else np.zeros(1),
        _means(recomputed.astype(float)),
    )
    said = f"{int(recomputed.sum()):,} of {len(recomputed):,} tokens recomputed"
    rows = (
        tag(
            "div",
            tag("span", label, title=meaning),
            area(height, f"kv-strip kv-strip-{name}"),
            class_="kv-lane",
        )
        for (name, label, meaning), height in zip(_LANES, heights, strict=True)
    )
    return tag("div", *rows, class_="kv-strips", role="img", aria_label=f"Along the passage: {said}")


def peak(values: np.ndarray, parts: list[slice]) -> float:
    """Return what only one column in fifty of all parts exceeds: the top of the scale that they share.

    One token that draws a hundred times the average would make everything else a flat line.
    """
    columns = [_means(values[part]) for part in parts if part.stop > part.start]
    return float(np.quantile(np.concatenate(columns), 0.98)) if columns else 0.0


def area(heights: np.ndarray, look: str) -> Markup:
    """Return heights in [0, 1] as one filled curve of steps."""
    tops = (HEIGHT - np.clip(heights, 0, 1) * HEIGHT).round().astype(int).tolist()
    steps = "".join(f"V{top}H{column}" for column, top in enumerate(tops, start=1))
    path = tag("path", d=f"M0,{HEIGHT}{steps}V{HEIGHT}Z")
    box = f"0 0 {len(tops)} {HEIGHT}"
    return tag("svg", path, viewBox=box, preserveAspectRatio="none", class_=look, aria_hidden="true")


def _means(values: np.ndarray) -> np.ndarray:
    """Return the mean of each column."""
    if not len(values):
        return np.zeros(1)
    return binned(values, COLUMNS) / np.diff([*edges(len(values), COLUMNS), len(values)])
