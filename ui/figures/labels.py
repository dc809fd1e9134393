"""Names inside a figure: plotly reads some tags in labels and hovers, so data is escaped first."""

import html

from ui.format import short
from ui.html import text


def label(value: object, most: int = 48) -> str:
    """Return data as plotly shows it: one line, at most `most` characters, no tag in it."""
    shown = short(html.unescape(text(value)), most)  # without what a browser would hide or obey
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("$", "&#36;")):
        shown = shown.replace(sign, entity)
    return shown
