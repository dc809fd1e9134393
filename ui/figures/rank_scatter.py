"""How the auxiliary and the main model rank the windows, as an SVG scatter plot of two paths."""

from collections.abc import Iterable

import numpy as np

from ui.html import Markup, tag

_SIDE = 400
_MARGIN = 10


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
