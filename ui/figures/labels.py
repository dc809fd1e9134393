"""Data as plotly labels: plotly renders some tags and $math$ in labels and hover texts, so both are escaped."""

import html

from ui.format import short
from ui.html import printable


def plotly_label(value: object, max_chars: int = 48) -> str:
    """Return data as one line of literal text, at most `max_chars` characters before escaping."""
    return html.escape(short(printable(value), max_chars), quote=False).replace("$", "&#36;")
