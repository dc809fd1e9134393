"""Does the small model rank the windows as the primary does? A scatter as SVG: two paths, however many dots."""

from collections.abc import Iterable

import numpy as np

from ui.html import Markup, tag

SIDE, MARGIN = 400, 10


def scatter(ranks: np.ndarray, chosen: np.ndarray, correlation: float, windows: int) -> Markup:
    """Return one dot a window; most looked at is at the top and at the right. Dots of chosen windows stand out.

    ranks        [2, dots] of the auxiliary (across) and of the primary (up), 1 is the most looked at
    chosen       [dots] bool: recomputed
    correlation  of all ranks
    windows      how many windows were ranked; those of one passage are fewer dots
    """
    last = max(windows - 1, 1)
    across, down = (SIDE * (1 - (ranks[0] - 1) / last)).round(), (SIDE * (ranks[1] - 1) / last).round()
    dots = list(zip(across.astype(int).tolist(), down.astype(int).tolist(), strict=True))
    said = f"{len(dots):,} windows, {int(chosen.sum()):,} of them recomputed; rank correlation {correlation:.2f}"
    return tag(
        "svg",
        tag("path", d=f"M0,{SIDE}L{SIDE},0", class_="kv-diagonal"),
        tag("path", d=_dots(dot for dot, taken in zip(dots, chosen, strict=True) if not taken), class_="kv-dots"),
        tag("path", d=_dots(dot for dot, taken in zip(dots, chosen, strict=True) if taken), class_="kv-dots kv-taken"),
        viewBox=f"{-MARGIN} {-MARGIN} {SIDE + 2 * MARGIN} {SIDE + 2 * MARGIN}",
        class_="kv-scatter",
        role="img",
        aria_label=said,
    )


def _dots(places: Iterable[tuple[int, int]]) -> str:
    return "".join(f"M{x},{y}h0" for x, y in dict.fromkeys(places))
